"""Algorithms by name, one file each: a frozen dataclass with a `loss`, as `ict.contract` declares it.

An algorithm is a formula; it knows neither devices nor optimizers. May import `base`, `contract` and `ops`.
"""

from ict.base.registry import Entry, Registry

ALGORITHMS = Registry(
    "algorithm",
    __name__,
    {
        "supervised": Entry("supervised:Supervised", "cross-entropy on the labeled examples only"),
        "mixup": Entry("mixup:Mixup", "supervised mixup (Zhang et al. 2018)"),
        "manifold-mixup": Entry("manifold_mixup:ManifoldMixup", "mixup of hidden states (Verma et al. 2019)"),
        "pi": Entry("pi:Pi", "the Pi-model (Laine & Aila 2017)"),
        "temporal-ensembling": Entry(
            "temporal_ensembling:TemporalEnsembling", "temporal ensembling (Laine & Aila 2017)"
        ),
        "mean-teacher": Entry("mean_teacher:MeanTeacher", "mean teacher (Tarvainen & Valpola 2017)"),
        "vat": Entry("vat:VAT", "virtual adversarial training, entropy minimization optional (Miyato et al. 2018)"),
        "vadd": Entry("vadd:VAdD", "virtual adversarial dropout (Park et al. 2018)"),
        "sntg": Entry("sntg:SNTG", "smooth neighbors on teacher graphs, on top of another method (Luo et al. 2018)"),
        "ict": Entry("ict:ICT", "Interpolation Consistency Training (Verma et al. 2019)"),
        "anchored": Entry("anchored_ict:AnchoredICT", "ICT with targets anchored to the predictions of experts"),
    },
)

"""Files that release 0.1.0 wrote still load.

`earlier_release/` holds a model folder of `ict fit`, a run of digits-100/ict with a network of width 4 that was killed
after 19 of 40 updates, and the weights of the same run when nothing kills it. All were written by the code before its
modules moved into folders.
"""

import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from ict.experiment.run import train
from ict.models.saved_model import load_model
from ict.recipes import find

EARLIER = Path(__file__).parent / "earlier_release"


def test_a_model_folder_loads_and_predicts() -> None:
    model = load_model(EARLIER / "photos_model")
    dark, light = np.full((2, 8, 8), 60, np.uint8), np.full((2, 8, 8), 180, np.uint8)
    probs = model.predict_proba(np.concatenate([dark, light]))
    assert [model.classes[i] for i in probs.argmax(1)] == ["dark", "dark", "light", "light"]


def test_a_checkpoint_is_resumed_to_the_weights_of_the_whole_run(tmp_path: Path) -> None:
    run_folder = tmp_path / "run"
    shutil.copytree(EARLIER / "interrupted_run", run_folder)
    settings = ["network.width=4", "train.steps=40", "eval.every=20", "eval.log_every=10"]
    resumed = train(find("digits-100/ict"), settings=settings, out=run_folder, resume=True)
    assert resumed.result["resumed_from"] == [19]
    whole = load_file(EARLIER / "whole_run.safetensors")
    for name, tensor in resumed.network.state_dict().items():
        # not bit for bit: another CPU rounds differently
        torch.testing.assert_close(tensor, whole[name], rtol=1e-2, atol=1e-3)

"""Handwritten digits from four labels a class: cells for a notebook, or python examples/digits_four_labels.py."""

# %% The data: 1,797 scans of 8x8 pixels. 30 % are held out; of the rest four a class keep their label.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from ict import ICTClassifier, SemiSupervisedClassifier

images, truth = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)
X, X_test, y_all, y_test = train_test_split(images, truth, test_size=0.3, stratify=truth, random_state=0)
draws = np.random.default_rng(0)
y = np.full(len(X), -1)
for label in range(10):
    rows = draws.choice(np.flatnonzero(y_all == label), 4, replace=False)
    y[rows] = label
print(f"{(y >= 0).sum()} labeled, {(y < 0).sum()} unlabeled, {len(X_test)} held out")

# %% What the labels alone give: a support vector machine.
labeled = y >= 0
svc = SVC().fit(X[labeled].reshape(-1, 64), y[labeled])
print(f"SVC on the labels alone:         {svc.score(X_test.reshape(-1, 64), y_test):.1%}")

# %% ICT, with the unlabeled images.
ict = ICTClassifier(random_state=0).fit(X, y)
print(f"ICT with the unlabeled images:   {ict.score(X_test, y_test):.1%}")
print(f"its labels for those images:     {(ict.transduction_[~labeled] == y_all[~labeled]).mean():.1%} right")

# %% Which method to trust, without looking at the held-out images, and did the unlabeled ones help?
auto = SemiSupervisedClassifier(random_state=0).fit(X, y)
print(f"chosen by folds of the labels:   {auto.method_}, {auto.score(X_test, y_test):.1%}")
print(auto.remark_)

"""Acronyms: find the letters of a term that form its acronym, with states that count.

For a tagger this is a sentence of letters with two labels, I (in the acronym) and O (outside):

    d e o x y r i b o n u c l e i c   a c i d
    I O O O O O O O O I O O O O O O O I O O O        DNA

With two labels, the previous label is of little use: it is nearly always O. The distance to the
last I matters, because acronyms take one letter of every word, or every root, and rarely two
letters in a row. So the number of preceding O's becomes part of the state, up to n:

    I, O×1, O×2, ..., O×n

`StateSpace.run_length` builds these n + 1 states, and every run length r has separate weights
run[r, y] for the next label y. The idea is from Ke Wu, Discriminative Sequence Labeling (2013),
section 5.3. All taggers below use the same letters as features. Run it:

    python examples/acronyms.py
"""

import numpy as np

import tagloom as tl

# Written for this example; capitals are in the acronym. Mostly medicine and chemistry, where a term
# has few words with many roots, so that the first letters of words are not enough.
TERMS = """
DeoxyriboNucleic Acid; RiboNucleic Acid; TuBerculosis; ElectroCardioGram; ElectroEncephaloGram
ElectroMyoGram; MagnetoEncephaloGraphy; Magnetic Resonance Imaging; Computed Tomography
Positron Emission Tomography; Central Nervous System; CerebroSpinal Fluid; Adenosine TriPhosphate
Adenosine DiPhosphate; Adenosine MonoPhosphate; Guanosine TriPhosphate; Guanosine DiPhosphate
PolyVinyl Chloride; PolyEthylene Glycol; PolyTetraFluoroEthylene; PolyEthylene Terephthalate
DichloroDiphenylTrichloroethane; TriNitroToluene; Lysergic acid Diethylamide
Tetra Hydro Cannabinol; ChloroFluoroCarbon; HydroChloroFluoroCarbon; DiMethyl SulfOxide
DiMethylFormamide; EthyleneDiamine Tetraacetic Acid; TetraHydroFuran; MethylEthyl Ketone
Nuclear Magnetic Resonance; Polymerase Chain Reaction; Human Immunodeficiency Virus
Acquired ImmunoDeficiency Syndrome; Human PapillomaVirus; CytoMegaloVirus; Epstein Barr Virus
Herpes Simplex Virus; Multiple Sclerosis; Severe Acute Respiratory Syndrome
Attention Deficit Hyperactivity Disorder; Intensive Care Unit; Obsessive Compulsive Disorder
Post Traumatic Stress Disorder; Body Mass Index; Basal Metabolic Rate; Low Density Lipoprotein
High Density Lipoprotein; Very Low Density Lipoprotein; White Blood Cell; Red Blood Cell
Blood Urea Nitrogen; Urinary Tract Infection; GastroIntestinal; IntraVenous; IntraMuscular
SubCutaneous; IntraOcular Pressure; Deep Vein Thrombosis; Pulmonary Embolism
Transient Ischaemic Attack; CerebroVascular Accident; Mitral Regurgitation; Coronary Heart Disease
Congestive Heart Failure; Chronic Obstructive Pulmonary Disease; CardioPulmonary Resuscitation
TransCutaneous Electrical Nerve Stimulation; Thyroid Stimulating Hormone
Follicle Stimulating Hormone; Luteinizing Hormone; AdrenoCorticoTropic Hormone
Human Growth Hormone; ThyroTropin Releasing Hormone; GonadoTropin Releasing Hormone
Hormone Replacement Therapy; NonSteroidal AntiInflammatory Drug
Selective Serotonin Reuptake Inhibitor; MonoAmine Oxidase Inhibitor; TriCyclic Antidepressant
Gamma AminoButyric Acid; DeHydroEpiAndrosterone; DocosaHexaenoic Acid; EicosaPentaenoic Acid
ImmunoGlobulin; ImmunoHistoChemistry; Enzyme Linked ImmunoSorbent Assay; RadioImmunoAssay
Reticular Activating System; Peripheral Nervous System; Autonomic Nervous System
RetroVirus Infection; OsteoArthritis; Rheumatoid Arthritis; Systemic Lupus Erythematosus
Juvenile Idiopathic Arthritis; TemporoMandibular Joint; Anterior Cruciate Ligament
Posterior Cruciate Ligament; ElectroOculoGram; ElectroRetinoGram; PhotoMultiplier Tube
Light Emitting Diode; Liquid Crystal Display; Cathode Ray Tube; CathodoLuminescence
Scanning Electron Microscope; Transmission Electron Microscope; Atomic Force Microscope
ThermoGravimetric Analysis; Differential Scanning Calorimetry
""".replace("\n", ";")

# A letter, the letters around it, and pairs and triples of them.
LETTERS = ["word[-2..2]", "word[-1] & word", "word & word[1]", "word[-2] & word[-1] & word"]
N_FOLDS = 5


def read_terms():
    """Return the letters of each term and their labels."""
    terms = [term.strip() for term in TERMS.split(";") if term.strip()]
    X = [list(term.lower()) for term in terms]
    y = [["I" if letter.isupper() else "O" for letter in term] for term in terms]
    return X, y


def short_form(letters, labels):
    return "".join(c for c, y in zip(letters, labels, strict=True) if y == "I").upper()


def make_tagger(cap):
    """Return a CRF that counts O's up to a cap; if 0, its states are the labels."""
    states = tl.StateSpace.run_length(["I", "O"], "O", cap) if cap else "auto"
    return tl.CRF(LETTERS, states=states, algorithm="lbfgs", l2=0.05, max_iterations=40)


def predict_unseen(cap, X, y):
    """Label every term with a tagger that was trained without it, by cross-validation."""
    fold = np.random.default_rng(0).permutation(len(X)) % N_FOLDS
    predicted = [None] * len(X)
    for k in range(N_FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        tagger = make_tagger(cap).fit([X[i] for i in train], [y[i] for i in train])
        for i, labels in zip(test, tagger.predict([X[i] for i in test]), strict=True):
            predicted[i] = labels
    return predicted


def main():
    X, y = read_terms()
    gold = [short_form(*pair) for pair in zip(X, y, strict=True)]
    n_letters = sum(map(len, X))
    print(f"{len(X)} terms, {n_letters:,} letters; each tagged by a model that never saw it.\n")
    print("states           letters right   acronyms right")
    short_forms = {}
    for cap in (0, 4, 8):
        predicted = predict_unseen(cap, X, y)
        short_forms[cap] = [short_form(*pair) for pair in zip(X, predicted, strict=True)]
        letters = tl.evaluate(y, predicted, spans=False, n_bootstrap=0).accuracy
        acronyms = np.mean([a == b for a, b in zip(short_forms[cap], gold, strict=True)])
        name = f"I, O×1 ... O×{cap}" if cap else "I, O"
        print(f"{name:16} {letters:13.1%} {acronyms:16.1%}")

    print("\nMistakes that counting corrects, for example")
    for letters, right, plain, counted in zip(X, gold, short_forms[0], short_forms[8], strict=True):
        if counted == right != plain and len(letters) < 26:
            print(f"  {''.join(letters):26} {plain:5} -> {counted}")

    tagger = make_tagger(8).fit(X, y)
    run = tagger.scores_.states.unpack(tagger.scores_.tied)["run"]  # [r, y]: y after r O's
    print("\nLearned weights: run[r, I] - run[r, O], the preference for an I after r O's")
    print("  " + "  ".join(f"{r:>5}" for r in range(len(run))))
    print("  " + "  ".join(f"{w:+5.1f}" for w in run[:, 0] - run[:, 1]))

    term = "electrocardiograph"
    print(f"\nA term that is not in the list: {term}")
    for labelling in tagger.predict_nbest([list(term)], n=3)[0]:
        print(f"  {short_form(term, labelling.labels):6} probability {labelling.prob:.2f}")


if __name__ == "__main__":
    main()

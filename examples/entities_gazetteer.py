"""Named entities, with and without a gazetteer.

Few names in a new text were in the training data. Their spelling and context reveal that they are
names, but hardly of which type: Antwerp or Hanne? A gazetteer, a list of names with their types,
helps. It enters as a feature, not as a rule: the template `lexicon(names)` gives the position of a
token in a listed phrase and the type of the phrase (`S-LOC`, or `B-LOC` and `E-LOC` for New York),
and training determines how far to trust it, given all other features. So the list need not be
perfect: Reading is a city in it, but the verb is not tagged as one.

The lists below are general knowledge. They are evaluated on the development sentences, whose names
were not used when the lists were written; those of the test sentences were. Run it:

    python examples/entities_gazetteer.py
"""

import tagloom as tl
from tagloom.features import PRESETS, Lexicon, Templates

COUNTRIES = """
Afghanistan Albania Algeria Andorra Angola Argentina Armenia Australia Austria Azerbaijan Bahrain
Bangladesh Belarus Belgium Belize Benin Bhutan Bolivia Bosnia Botswana Brazil Brunei Bulgaria
Burundi Cambodia Cameroon Canada Chad Chile China Colombia Congo Croatia Cuba Cyprus Denmark Ecuador
Egypt England Eritrea Estonia Eswatini Ethiopia Fiji Finland France Gabon Gambia Georgia Germany
Ghana Greece Guatemala Guinea Guyana Haiti Honduras Hungary Iceland India Indonesia Iran Iraq
Ireland Israel Italy Jamaica Japan Jordan Kazakhstan Kenya Kosovo Kuwait Laos Latvia Lebanon Lesotho
Liberia Libya Lithuania Luxembourg Madagascar Malawi Malaysia Mali Malta Mauritius Mexico Moldova
Monaco Mongolia Montenegro Morocco Mozambique Myanmar Namibia Nepal Netherlands Nicaragua Niger
Nigeria Norway Oman Pakistan Panama Paraguay Peru Philippines Poland Portugal Qatar Romania Russia
Rwanda Samoa Scotland Senegal Serbia Singapore Slovakia Slovenia Somalia Spain Sudan Sweden
Switzerland Syria Taiwan Tanzania Thailand Togo Tonga Tunisia Turkey Uganda Ukraine Uruguay
Uzbekistan Venezuela Vietnam Wales Yemen Zambia Zimbabwe
"""
CITIES = """
Aachen Aberdeen Algiers Amsterdam Antwerp Athens Augsburg Baghdad Bangkok Barcelona Basel Bath
Beijing Belfast Belgrade Bergen Berlin Bern Bielefeld Bilbao Birmingham Bochum Bologna Bonn Bordeaux
Boston Bradford Bremen Brighton Bristol Bruges Brussels Bucharest Budapest Cairo Cambridge
Canterbury Cardiff Chelmsford Chester Chicago Cologne Copenhagen Cork Coventry Darmstadt Delhi Derby
Derry Dortmund Dresden Dublin Dundee Durham Edinburgh Essen Exeter Florence Frankfurt Freiburg
Galway Geneva Genoa Ghent Glasgow Gloucester Gothenburg Granada Graz Hamburg Hanover Havana
Heidelberg Helsinki Hereford Inverness Istanbul Jakarta Jena Kiel Kyiv Kyoto Lagos Lancaster Leeds
Leicester Leipzig Lichfield Lille Lima Limerick Lincoln Lisbon Liverpool Ljubljana London Lyon
Madrid Mainz Malaga Manchester Mannheim Marseille Melbourne Milan Montreal Moscow Munich Nairobi
Nantes Naples Newcastle Newport Nice Norwich Nottingham Nuremberg Oslo Oxford Palermo Paris Perth
Plymouth Porto Portsmouth Prague Preston Reading Reykjavik Riga Ripon Rome Rotterdam Salford
Salisbury Salzburg Seoul Seville Sheffield Sofia Southampton Stirling Stockholm Stuttgart Sunderland
Swansea Sydney Tallinn Tokyo Toronto Toulouse Trier Truro Tunis Turin Ulm Utrecht Valencia Venice
Vienna Vilnius Wakefield Warsaw Waterford Wells Winchester Worcester Wuppertal Wurzburg York Zagreb
Zurich
"""
PHRASES = """
New York; Los Angeles; San Francisco; Hong Kong; Cape Town; New Zealand; South Africa; United
States; United Kingdom; Saudi Arabia; Sri Lanka; Costa Rica; El Salvador; Buenos Aires; Rio de
Janeiro
"""
GIVEN_NAMES = """
Ada Adam Agnes Alan Alex Alice Amy Andrew Anna Anne Anton Arthur Ben Carl Carlos Carmen Charles
Charlotte Clara Claire Daniel Danny David Diana Edward Elena Elias Elisa Elizabeth Ella Emil Emily
Emma Eric Erik Eva Felix Fiona Frank Fred George Grace Greta Hannah Hans Harry Helen Henry Hugo Ida
Ingrid Isabel Ivan Jack James Jan Jane Jean Joan John Jonas Jose Joseph Julia Julian Karen Karl Kate
Laura Lena Leo Lily Linda Lisa Louis Lucy Luis Lukas Magnus Maria Marie Mark Marta Martin Mary Max
Maya Mia Michael Mina Nadia Nina Nora Olga Oliver Omar Oscar Otto Pablo Paul Pedro Peter Petra
Pierre Rachel Robert Rosa Rose Ruth Sam Samuel Sara Sarah Simon Sofia Sophie Stefan Susan Theo
Thomas Tom Vera Victor Walter William Yusuf
"""
PEOPLES = """
African American Arab Asian Australian Austrian Belgian Brazilian British Bulgarian Canadian Catalan
Chilean Chinese Croatian Czech Danish Dutch Egyptian English Estonian European Finnish French German
Greek Hungarian Indian Irish Israeli Italian Japanese Kenyan Korean Latin Latvian Mexican Moroccan
Nigerian Norwegian Persian Peruvian Polish Portuguese Romanian Russian Scottish Serbian Spanish
Swedish Swiss Thai Turkish Ukrainian Welsh
"""


def make_gazetteer():
    """Return the lists as one lexicon; Sofia is both a city and a given name."""
    places = [*COUNTRIES.split(), *CITIES.split(), *(p.strip() for p in PHRASES.split(";"))]
    types = dict.fromkeys(places, "LOC")
    types |= dict.fromkeys(PEOPLES.split(), "MISC")
    for name in GIVEN_NAMES.split():
        types[name] = "LOC|PER" if name in types else "PER"
    return Lexicon(types)


def names_in(corpus):
    return {
        " ".join(sentence.tokens[start:end])
        for sentence in corpus
        for _, start, end in tl.labels.to_spans(sentence.labels, "bio")
    }


def recall_of_new(predicted, train, test):
    """Return the number of names not in the training data that are found, and of all such names."""
    seen = names_in(train)
    n = n_found = 0
    for sentence, labels in zip(test, predicted, strict=True):
        predicted_spans = set(tl.labels.to_spans(labels, "bio"))
        for span in tl.labels.to_spans(sentence.labels, "bio"):
            if " ".join(sentence.tokens[span[1] : span[2]]) not in seen:
                n += 1
                n_found += span in predicted_spans
    return n_found, n


def main():
    train, unseen, _ = tl.datasets.load("english", label="entity")
    gazetteer = make_gazetteer()
    print(f"{len(train)} training sentences, {len(unseen)} test sentences; {gazetteer!r}.\n")
    features = {
        "spelling and context": "ner",
        "... and the gazetteer": Templates(
            [*PRESETS["ner"], "lexicon(names)[-1..1]"], lexicons={"names": gazetteer}
        ),
    }
    print("                        precision   recall       F1   names not in training")
    predicted, taggers = {}, {}
    for name, templates in features.items():
        taggers[name] = tl.CRF(templates).fit(train)
        predicted[name] = taggers[name].predict(unseen)
        result = tl.evaluate(unseen, predicted[name], n_bootstrap=0)
        n_found, n = recall_of_new(predicted[name], train, unseen)
        scores = f"{result.precision:10.1%} {result.recall:8.1%} {result.f1:8.1%}"
        print(f"{name:22} {scores} {n_found:14} of {n}")

    p = tl.compare(unseen, *predicted.values(), n_bootstrap=0).p_value
    print(f"With so few names, a difference this large arises by chance with p = {p:.2f}.\n")

    print("Names that are right only with the gazetteer:")
    for sentence, *pair in zip(unseen, *predicted.values(), strict=True):
        without, with_list = (set(tl.labels.to_spans(labels, "bio")) for labels in pair)
        gold = set(tl.labels.to_spans(sentence.labels, "bio"))
        for kind, start, end in sorted((with_list - without) & gold, key=lambda span: span[1]):
            print(f"  {' '.join(sentence.tokens[start:end])} ({kind})")

    sentence = [
        "Reading",
        "books",
        "in",
        "Reading",
        "is",
        "what",
        "Antwerp",
        "taught",
        "Hanne",
        ".",
    ]
    (labels,) = taggers["... and the gazetteer"].predict([sentence])
    print(
        "\n"
        + " ".join(w if y == "O" else f"{w}/{y}" for w, y in zip(sentence, labels, strict=True))
    )


if __name__ == "__main__":
    main()

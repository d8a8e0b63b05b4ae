"""Which language is it? Letter trigrams of five lines each decide.

One model per language, each over letters; the language of a text is the one whose model gives it
the highest probability. Texts written for this example. Run it:

    python examples/languages.py
"""

import tagloom as tl

TEXTS = {
    "Dutch": """de oude man zat aan het water en keek naar de boten
        zij gaat morgen met de trein naar haar zuster in de stad
        het regent al de hele week en de kinderen blijven binnen
        ik weet niet waar mijn sleutels zijn, heb jij ze gezien
        wij hebben gisteren brood en kaas op de markt gekocht""",
    "English": """the old man sat by the water and looked at the boats
        she will take the train to her sister in the city tomorrow
        it has been raining all week and the children stay inside
        I do not know where my keys are, have you seen them
        yesterday we bought bread and cheese at the market""",
    "Finnish": """vanha mies istui veden äärellä ja katseli veneitä
        hän menee huomenna junalla sisarensa luo kaupunkiin
        koko viikon on satanut ja lapset pysyvät sisällä
        en tiedä missä avaimeni ovat, oletko sinä nähnyt ne
        ostimme eilen leipää ja juustoa torilta""",
    "French": """le vieil homme était assis près de l'eau et regardait les bateaux
        elle prendra demain le train pour aller chez sa sœur en ville
        il pleut depuis une semaine et les enfants restent à la maison
        je ne trouve pas mes clés, où sont-elles
        hier nous avons acheté du pain et du fromage au marché""",
    "German": """der alte Mann saß am Wasser und sah den Booten zu
        sie fährt morgen mit dem Zug zu ihrer Schwester in die Stadt
        es regnet schon die ganze Woche und die Kinder bleiben im Haus
        ich weiß nicht, wo meine Schlüssel sind, hast du sie gesehen
        gestern haben wir auf dem Markt Brot und Käse gekauft""",
    "Spanish": """el viejo estaba sentado junto al agua y miraba los barcos
        mañana tomará el tren para ir a casa de su hermana en la ciudad
        llueve desde la semana pasada y los niños se quedan en casa
        no encuentro las llaves, ¿dónde están?
        ayer compramos pan y queso en el mercado""",
}
QUESTIONS = [
    ("Dutch", "waar is het huis van de burgemeester"),
    ("English", "where is the house of the mayor"),
    ("Finnish", "missä on kaupunginjohtajan talo"),
    ("French", "où est la maison du maire"),
    ("German", "wo ist das Haus des Bürgermeisters"),
    ("Spanish", "dónde está la casa del alcalde"),
    ("Dutch", "ik heb geen honger"),
    ("English", "I am not hungry"),
    ("Finnish", "minulla ei ole nälkä"),
    ("French", "je n'ai pas faim"),
    ("German", "ich habe keinen Hunger"),
    ("Spanish", "no tengo hambre"),
]


def main():
    models = {}
    for name, text in TEXTS.items():
        lines = [line.strip() for line in text.splitlines()]
        models[name] = tl.NGramModel(3, unit="letters").fit(lines)
    n_right = 0
    for language, text in QUESTIONS:
        scores = {name: model.log_prob(text) for name, model in models.items()}
        best, second = sorted(scores, key=scores.get, reverse=True)[:2]
        n_right += best == language
        margin = scores[best] - scores[second]
        print(f"{text:40} {best:8} {margin:5.1f} nats before {second}")
    print(f"\n{n_right} of {len(QUESTIONS)} are right.")
    print("Drawn from the German model:", models["German"].generate("der ", random_state=4))


if __name__ == "__main__":
    main()

"""The tables of docs/howto/find-the-best-mix.md: NETWORK.tune.cpu.json, NETWORK.tune.gpu.json and
NETWORK.sensitivity.json (keep_mix.py). No third-party package."""

from markdown_tables import load, markdown


def span(low, high, digits=2):
    return f"({low:.{digits}f}..{high:.{digits}f})"


def device(document):
    machine = document["machine"]
    return machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"


def beside(document, name):
    """How many times as fast the saved engine is as another one, where there are several as the fastest; '~': the times
    did not settle."""
    timed = document["judged"]["timed"]
    other = min((row for row in timed[1:] if row["name"].startswith(name)), key=lambda row: row["speedup"])
    noisy = "~" if timed[0]["noisy"] or other["noisy"] else ""
    digits = 2 if name == "FP32" else 3
    return f"{noisy}{other['speedup']:.{digits}f}× {span(*other['speedup_ci95'], digits)}"


def loss(document):
    judged = document["judged"]
    value, (low, high) = judged["drop"] + 0.0, judged["drop_ci95"]
    if document["metric"] == "top1":
        return f"{value:.2f} pt {span(low, high)}"
    interval = f" {span(low, high)}" if low < high else ""
    return f"{value:.2g} {document['drop_unit']}{interval}"


def cannot_show(document):
    """What to say where so few samples do not tell the limit from none."""
    judged, limit = document["judged"], document["max_drop"]
    if document["metric"] != "top1" or judged["drop_ci95"][1] <= limit:
        return ""
    samples = judged["samples"]
    return (f"{samples:,} photos cannot show {limit:g} points ({document['network']}, {device(document)}): one photo is "
            f"{100 / samples:.2f} points, and the interval reaches {judged['drop_ci95'][1]:.2f}. ")


def tune(folder):
    """What the search handed out, as judged and timed at its end."""
    documents = [*load(folder, "tune.cpu"), *load(folder, "tune.gpu")]
    rows = [
        [
            f"{document['network']}, batch {document['batch_size']}",
            device(document),
            document["chosen"],
            beside(document, "FP32"),
            beside(document, "INT8"),
            f"{document['max_drop']:g} {document['drop_unit']} ({document['metric']})",
            loss(document),
            f"{document['judged']['samples']:,}",
            f"{sum('failed' not in trial for trial in document['trials'])} in {document['seconds']:.0f} s",
        ]
        for document in documents
    ]
    heading = ["network", "device", "chosen", "of FP32's speed (95 %)", "of INT8's speed (95 %)", "may lose",
               "loses (95 %)", "judged on", "engines tried"]
    if not rows:
        return ""
    return markdown(heading, rows) + (
        "\nThe engine as saved, loaded again: timed in turns with FP32 and INT8 throughout (~: not settled within 1 %), judged "
        "on samples that the search did not see; a negative loss is won as measured. "
        + "".join(map(cannot_show, documents))).rstrip() + "\n"


def sensitivity(folder):
    """How long it takes to try every layer, and what stands out."""
    rows = []
    for document in load(folder, "sensitivity"):
        layers = [layer for layer in document["layers"] if layer["quantized"]]
        worst = [layer for layer in layers if layer["node"] in document["outstanding"]]
        shares = [100 * sum(layer[key] for layer in worst) for key in ("damage_share", "macs_share")]
        rows.append([
            document["network"], device(document), str(len(layers)), str(document["samples"]),
            f"{document['seconds']:.0f} s", f"{document['seconds'] / document['float_seconds']:.0f}×",
            f"{len(worst)}: {shares[0]:.0f} % of the damage, {shares[1]:.1f} % of the work" if worst else "none",
        ])
    heading = ["network", "device", "layers", "photos", "took", "of FP32 alone", "stand out"]
    if not rows:
        return ""
    return markdown(heading, rows) + (
        "\nOf FP32 alone: the time that the whole float model takes for as many samples, timed on some of them between the rest.\n")


TABLES = {"tune": tune, "sensitivity": sensitivity}

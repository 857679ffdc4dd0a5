"""The tables of what served under load: the soak of a Triton server, CUDA engines in one, MLPerf's load generator. No
third-party package."""

from markdown_tables import load, markdown, percent

FAULTS = {"bad": "bad requests", "gone": "clients that went away", "cancelled": "requests cancelled by gRPC",
          "small": "shared memory too small", "version": "new versions", "damaged": "damaged new versions",
          "killed": "servers killed and started again"}


def soak(folder):
    """What was asked, what was done to the server, what became of it."""
    rows, lines = [], []
    for document in load(folder, "soak"):
        memory = document["memory"]
        start, end = memory["from"], memory["to"]
        rows += [["requests answered, of those sent", f"{document['answered']:,} of {document['requests']:,}"],
                 ["lost, crossed", f"{document['lost']}, {document['crossed']}"],
                 ["asked again, since no server was there", f"{document['asked_again']:,}"],
                 *([title, str(document["faults"][name])] for name, title in FAULTS.items()),
                 ["faults that were answered in another way than with their cause", str(len(document["wrong"]))],
                 ["servers that ended by themselves, with Lathe's backend among the last words",
                  str(sum(any("triton_lathe" in word for word in end["words"]) for end in document["server_ended"]))],
                 ["the same, without it", str(sum(not any("triton_lathe" in word for word in end["words"])
                                                  for end in document["server_ended"]))],
                 [f"memory from request {start['requests']:,} to {end['requests']:,}, "
                  f"{end['versions'] - start['versions']} new versions between",
                  f"{start['kib'] / 1024:.1f} to {end['kib'] / 1024:.1f} MiB"]]
        lines.append(f"\n{document['clients']} clients by HTTP and gRPC in {document['seconds']:.0f} s, a fault every "
                     f"{document['seconds_between_faults']:g} s; {document['machine']['cpu']}, "
                     f"{document['machine']['cores']} cores, busy with other work.\n")
    return markdown(["Triton with Lathe's backend", ""], rows) + "".join(lines) if rows else ""


WAYS = {"message": "in the message", "Shared": "in shared memory", "CudaShared": "in CUDA shared memory"}
NETWORKS = {"bert_base": "BERT-base, 128 tokens", "resnet50": "ResNet-50, pictures as uint8"}


def serving(folder):
    """CUDA engines in a Triton server: the most samples a second that clients got, against the engine alone."""
    rows, lines = [], []
    for document in load(folder, "serving"):
        for name, network in document["networks"].items():
            limit = min(network["limits_samples_per_second"].values())
            rows.append([NETWORKS[name], "the engine alone, inputs in the device's memory", "", f"{limit:,.0f}", ""])
            for each in network["load"]:
                rate = each["samples_per_second"]
                rows.append([NETWORKS[name], WAYS[each["tensors"]], str(each["samples"]), f"{rate:,.0f}", percent(rate / limit)])
        machine = document["machine"]
        lines.append(f"\n{machine['gpu']}, {machine['cores']} cores ({machine['cpu']}); FP16, Triton 2.51, HTTP, 32 to 256 connections.\n")
    heading = ["network", "tensors", "samples a request", "samples/s", "of the engine's"]
    return markdown(heading, rows) + "".join(lines) if rows else ""


def mlperf(folder):
    """LoadGen's accuracy mode beside `lathe eval`; its verdicts of performance mode. Figures of time only where the
    machine had nothing else to do."""
    rows, lines = [], []
    for document in load(folder, "mlperf"):
        for run in document["runs"]:
            by_eval = document["eval"]["top1"]
            if run["mode"] == "accuracy":
                found = run["accuracy"]
                said = f"top-1 {percent(found['top1'])} of {found['answered']} (`lathe eval`: {percent(by_eval)})"
            else:
                figures = run["figures"]
                unmet = [name.removesuffix(" satisfied").lower() for name, value in figures.items() if value == "NO"]
                said = figures["Result is"].lower() + (f" ({', '.join(unmet)})" if unmet else "")
            rows.append([document["network"], run["system"], run["scenario"], run["mode"], said])
        lines.append(f"\n{document['network']}: {document['machine']['cpu']}, {document['machine']['cores']} cores" + (
            f", busy with other work (load {document['load_average']:.0f}), so times are left out.\n"
            if document["busy"] else ".\n"))
    heading = ["network", "system", "scenario", "mode", "LoadGen's answer"]
    return markdown(heading, rows) + "".join(lines) if rows else ""


TABLES = {"soak": soak, "serving": serving, "mlperf": mlperf}

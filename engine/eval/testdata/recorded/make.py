#!/usr/bin/env python3
"""make.py MMLU_PRO CODET writes the two recorded data sets beside it.

MMLU_PRO is a checkout of TIGER-AI-Lab/MMLU-Pro, of which eval_results/*.zip are read: those that are
there, can be opened and have an answer to (nearly) every question. CODET is one of microsoft/CodeT. With
--check nothing is written: the script fails unless the data sets have the same content already.
"""
import gzip
import io
import json
import pathlib
import sys
import zipfile

here = pathlib.Path(__file__).parent


def letters(checkout):
    """Returns the table of letters. A model's letter is the field pred of its output, if it is not empty."""
    members, questions = {}, {}
    for path in sorted((checkout / "eval_results").glob("model_outputs_*_5shots.zip")):
        try:
            archive = zipfile.ZipFile(path)
            name = next(n for n in archive.namelist() if n.endswith(".json") and not n.startswith("__MACOSX"))
            outputs = json.loads(archive.read(name))
        except (zipfile.BadZipFile, OSError, StopIteration):
            continue  # not part of every checkout
        if len(outputs) < 12_000:
            continue  # an evaluation that was not finished
        member = path.name.removeprefix("model_outputs_").removesuffix("_5shots.zip")
        members[member] = {int(o["question_id"]): o.get("pred") or "-" for o in outputs}
        for o in outputs:
            questions.setdefault(int(o["question_id"]), (o["category"], o["answer"], len(o["options"])))
    names = list(members)
    rows = [["question_id", "category", "answer", "options", *names]]
    for key in sorted(questions):
        category, answer, options = questions[key]
        rows.append([key, category, answer, options, *(members[n].get(key, "-") for n in names)])
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def programs(checkout):
    """Returns a line for each task. A program continues the prompt, up to the first line that is neither
    indented nor empty, and a batch of tests continues test_prompt."""
    data = checkout / "CodeT" / "data"
    generated = "HumanEval_codegen16B_temp0.8_topp0.95_num100_max300_%s.jsonl"
    solutions = {x["prompt"]: x["samples"] for x in lines(data / "generated_data" / (generated % "code_solution"))}
    tests = {x["prompt"]: x["samples"] for x in lines(data / "generated_data" / (generated % "test_case"))}
    asked = {x["task_id"]: x["prompt"] for x in lines(data / "dataset" / "HumanEval_for_test_case_generation.jsonl")}
    out = io.StringIO()
    for task in sorted(lines(data / "dataset" / "HumanEval_for_code_generation.jsonl"), key=lambda task: task["task_id"]):
        out.write(json.dumps({
            "task_id": task["task_id"], "entry_point": task["entry_point"], "prompt": task["prompt"], "hidden_test": task["test"],
            "programs": solutions[task["prompt"]],
            "test_prompt": asked[task["task_id"]], "tests": tests[asked[task["task_id"]]],
        }) + "\n")
    return out.getvalue()


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    mmlu, codet = map(pathlib.Path, arguments)
    for name, text in (("mmlu-pro-letters.tsv.gz", letters(mmlu)), ("humaneval-codegen16b.jsonl.gz", programs(codet))):
        if "--check" not in sys.argv:
            (here / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        elif gzip.decompress((here / name).read_bytes()).decode() != text:
            sys.exit(f"{name} has another content")


main()

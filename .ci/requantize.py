"""requantize.py DIR FROM TO writes the model DIR/FROM to the file TO with weights of four bits (Q4_0).

The tensors of a model of this width cannot be divided into the blocks of Q4_K, so most of those
of a Q4_K_M file have five bits, for which llama.cpp has no fast kernels: on two processors Q4_0
generates 1.7 times as many tokens a second. The package gguf is installed into DIR/gguf. Exit 3: it
cannot be had here.
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ["gguf==0.19.0", "numpy==2.4.6", "pyyaml==6.0.3", "tqdm==4.70.1"]

models, name, to = sys.argv[1:]
path = os.path.join(models, "gguf")
if not os.path.isdir(path):
    part = path + ".part"  # left by an interrupted installation
    shutil.rmtree(part, ignore_errors=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", part, *PACKAGES]
    if subprocess.run(install).returncode:
        print("requantize.py: the packages", *PACKAGES, "cannot be had here", file=sys.stderr)
        sys.exit(3)
    os.replace(part, path)
sys.path.insert(0, path)

import gguf  # noqa: E402
from gguf import GGMLQuantizationType as Type  # noqa: E402

EMBEDDING = "token_embd.weight"  # keeps eight bits, since a token reads only one of its rows

reader = gguf.GGUFReader(os.path.join(models, name))
writer = gguf.GGUFWriter(to + ".part", str(reader.fields["general.architecture"].contents()))
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        continue
    value = field.contents()
    if field.name == "general.file_type":
        value = int(gguf.LlamaFileType.MOSTLY_Q4_0)
    kind = field.types[0]
    writer.add_key_value(field.name, value, kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
tensors = []
for tensor in reader.tensors:
    data, kind = tensor.data, None
    if tensor.tensor_type != Type.F32:
        kind = Type.Q8_0 if tensor.name == EMBEDDING else Type.Q4_0
        if tensor.tensor_type != kind:
            data = gguf.quants.quantize(gguf.quants.dequantize(data, tensor.tensor_type), kind)
    tensors.append(data)
    writer.add_tensor_info(tensor.name, data.shape, data.dtype, data.nbytes, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_ti_data_to_file()
for data in tensors:
    writer.write_tensor_data(data)
writer.close()
os.replace(to + ".part", to)

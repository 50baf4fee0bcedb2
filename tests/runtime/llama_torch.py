#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits of Hugging Face folders, by torch or by transformers.

usage: llama_torch.py torch FOLDER ...         a forward pass in torch: of the folder's tensors, and
                                               of FOLDER.h5, a checkpoint's model.h5, by h5py
       llama_torch.py transformers FOLDER ...  all of it by transformers

FOLDER.logits is as for llama_forward.py. Says the largest difference and fails where it is 1e-4 or
more; ends with 77 where a module is missing.
"""
import json
import os
import struct
import sys

try:
    import torch
except ImportError:
    print("torch is not installed for", sys.executable)
    sys.exit(77)


def from_safetensors(folder):
    types = {"F32": torch.float32, "BF16": torch.bfloat16}
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = bytearray(file.read())
        for tensor, entry in header.items():
            if tensor == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(data[begin:end], dtype=types[entry["dtype"]])
            tensors[tensor] = flat.reshape(entry["shape"]).double()
    return tensors


def from_hdf5(path):
    try:
        import h5py
    except ImportError:
        print("h5py is not installed for", sys.executable)
        sys.exit(77)
    with h5py.File(path, "r") as file:
        return {name: torch.tensor(data[...]).double() for name, data in file["parameters"].items()}


def rotate(x, theta):
    """x: heads, positions, size; the halves of the last dimension are coordinates of each pair."""
    size = x.shape[-1]
    frequencies = theta ** (-torch.arange(0, size, 2).double() / size)
    angles = torch.outer(torch.arange(x.shape[1]).double(), frequencies)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def forward(config, tensors, tokens):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    theta = (config.get("rope_parameters") or config)["rope_theta"]

    def linear(name, x):
        return torch.nn.functional.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))

    def norm(name, x):
        mean = x.square().mean(-1, keepdim=True)
        return tensors[name + ".weight"] * x * torch.rsqrt(mean + config["rms_norm_eps"])

    x = tensors["model.embed_tokens.weight"][tokens]
    hidden = torch.full((len(tokens), len(tokens)), float("-inf")).double().triu(1)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        y = norm(layer + "input_layernorm", x)
        q, k, v = (
            linear(f"{layer}self_attn.{part}_proj", y).reshape(len(tokens), count, -1).transpose(0, 1)
            for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        k, v = (t.repeat_interleave(heads // kv_heads, dim=0) for t in (rotate(k, theta), v))
        scores = rotate(q, theta) @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + hidden
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(tokens), -1)
        x = x + linear(layer + "self_attn.o_proj", y)
        y = norm(layer + "post_attention_layernorm", x)
        gate = torch.nn.functional.silu(linear(layer + "mlp.gate_proj", y))
        x = x + linear(layer + "mlp.down_proj", gate * linear(layer + "mlp.up_proj", y))
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return linear(head, norm("model.norm", x))


def by_transformers(folder, tokens):
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        print("transformers is not installed for", sys.executable)
        sys.exit(77)
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


def agrees(name, own, given):
    if own.shape != given.shape:
        print(f"{name}: the logits have another shape")
        return False
    worst = (own - given).abs().max().item()
    print(f"{name}: largest difference {worst:.3g} of logits up to {given.abs().max().item():.3g}")
    return worst < 1e-4


def main():
    way, *folders = sys.argv[1:]
    good = True
    for folder in folders:
        with open(folder + ".logits", encoding="utf-8") as lines:
            tokens = [int(word) for word in next(lines).split()]
            given = torch.tensor([[float(word) for word in line.split()] for line in lines]).double()
        if way == "transformers":
            good &= agrees(folder, by_transformers(folder, tokens), given)
            continue
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        for name, tensors in (
            (folder, from_safetensors(folder)),
            (folder + ".h5", from_hdf5(folder + ".h5")),
        ):
            good &= agrees(name, forward(config, tensors, tokens), given)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

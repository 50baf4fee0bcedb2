#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits of Hugging Face folders, by another reader and another forward pass than Evener's.

usage: llama_forward.py FOLDER ...

FOLDER.logits is a text file: the first line has the token ids, each further line the logits behind one
token more. Says the largest difference and fails where it is 1e-4 or more. Nothing but the standard
library, floats of Python, so for tiny models only.
"""
import json
import math
import os
import struct
import sys


def read_tensors(folder):
    """Name to (shape, flat list of floats), from every safetensors file of the folder."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        length = struct.unpack("<Q", content[:8])[0]
        data = content[8 + length:]
        for tensor, entry in json.loads(content[8:8 + length]).items():
            if tensor == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            raw = data[begin:end]
            if entry["dtype"] == "F32":
                values = list(struct.unpack(f"<{len(raw) // 4}f", raw))
            else:
                assert entry["dtype"] == "BF16", entry["dtype"]
                halves = struct.unpack(f"<{len(raw) // 2}H", raw)
                values = [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in halves]
            tensors[tensor] = (entry["shape"], values)
    return tensors


class Llama:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.tensors = read_tensors(folder)
        rope = self.config.get("rope_parameters") or {}
        self.theta = rope.get("rope_theta", self.config["rope_theta"])

    def linear(self, name, x):
        (rows, cols), weights = self.tensors[name + ".weight"]
        bias = self.tensors[name + ".bias"][1] if name + ".bias" in self.tensors else [0.0] * rows
        return [
            bias[r] + sum(weights[r * cols + c] * x[c] for c in range(cols)) for r in range(rows)
        ]

    def norm(self, name, x):
        weights = self.tensors[name + ".weight"][1]
        mean = sum(v * v for v in x) / len(x)
        scale = 1 / math.sqrt(mean + self.config["rms_norm_eps"])
        return [w * v * scale for w, v in zip(weights, x)]

    def rotate(self, head, position):
        """Halves of the head are the two coordinates of each pair."""
        half = len(head) // 2
        result = list(head)
        for i in range(half):
            angle = position * self.theta ** (-2 * i / len(head))
            a, b = head[i], head[i + half]
            result[i] = a * math.cos(angle) - b * math.sin(angle)
            result[i + half] = b * math.cos(angle) + a * math.sin(angle)
        return result

    def attention(self, layer, xs):
        name = f"model.layers.{layer}.self_attn."
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        size = self.config["head_dim"]

        def split(vector):
            return [vector[i:i + size] for i in range(0, len(vector), size)]

        queries, keys, values = [], [], []
        for position, x in enumerate(xs):
            queries.append([self.rotate(h, position) for h in split(self.linear(name + "q_proj", x))])
            keys.append([self.rotate(h, position) for h in split(self.linear(name + "k_proj", x))])
            values.append(split(self.linear(name + "v_proj", x)))
        outputs = []
        for position in range(len(xs)):
            joined = []
            for h in range(heads):
                kv = h // (heads // kv_heads)
                scores = [
                    sum(q * k for q, k in zip(queries[position][h], keys[p][kv])) / math.sqrt(size)
                    for p in range(position + 1)
                ]
                top = max(scores)
                weights = [math.exp(s - top) for s in scores]
                total = sum(weights)
                joined += [
                    sum(w / total * values[p][kv][d] for p, w in enumerate(weights))
                    for d in range(size)
                ]
            outputs.append(self.linear(name + "o_proj", joined))
        return outputs

    def feed_forward(self, layer, x):
        name = f"model.layers.{layer}.mlp."
        gate, up = self.linear(name + "gate_proj", x), self.linear(name + "up_proj", x)
        inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        return self.linear(name + "down_proj", inner)

    def logits(self, tokens):
        (_, width), table = self.tensors["model.embed_tokens.weight"]
        xs = [table[t * width:(t + 1) * width] for t in tokens]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            normed = [self.norm(name + "input_layernorm", x) for x in xs]
            xs = [[a + b for a, b in zip(x, y)] for x, y in zip(xs, self.attention(layer, normed))]
            for i, x in enumerate(xs):
                y = self.feed_forward(layer, self.norm(name + "post_attention_layernorm", x))
                xs[i] = [a + b for a, b in zip(x, y)]
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return [self.linear(head, self.norm("model.norm", x)) for x in xs]


def agrees(folder):
    with open(folder + ".logits", encoding="utf-8") as lines:
        tokens = [int(word) for word in next(lines).split()]
        given = [[float(word) for word in line.split()] for line in lines]
    own = Llama(folder).logits(tokens)
    if len(own) != len(given) or any(len(a) != len(b) for a, b in zip(own, given)):
        print(f"{folder}: the logits have another shape")
        return False
    worst = max(abs(a - b) for x, y in zip(own, given) for a, b in zip(x, y))
    size = max(abs(b) for y in given for b in y)
    print(f"{folder}: largest difference {worst:.3g} of logits up to {size:.3g}")
    return worst < 1e-4


if __name__ == "__main__":
    sys.exit(0 if all([agrees(folder) for folder in sys.argv[1:]]) else 1)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the CUDA compiler made of kernel files, for sm_80 and sm_90.

  cuda_resources.py [--folder DIR] [--jobs N] [FILE.cu ...]     (default: all of kernels/cuda)
  cuda_resources.py --control FILE.cu

No kernel may spill registers or use local memory. A kernel with tensor-core products must be
claimed in a comment of its file,
  // resources: NAME<ARGUMENTS>: T x R registers, S B, N blocks
and must then use cp.async, take blocks of T threads with at most R registers each, fit S bytes of
shared memory into devices of compute capability 8.6 (99 KiB), and leave room for N blocks on each
multiprocessor. Where cuobjdump is found (PATH, the folder of nvcc, or the variable CUOBJDUMP), the
machine code is read too: HMMA and LDGSTS in claimed kernels, LDL and STL nowhere. One line per
kernel is printed.

--control turns the check on itself: the file says in comments `// complaint: TEXT` what must be
found wrong with it, and nothing else may be. Exit code: 0 good, 1 complaints, 77 without nvcc.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHITECTURES = (80, 90)
SHARED_OF = {80: 164 * 1024, 90: 228 * 1024}  # bytes per multiprocessor
MOST_SHARED = 99 * 1024  # of a block, compute capability 8.6, the least of 8.0 and newer


@dataclasses.dataclass
class Kernel:
    name: str  # demangled, without namespaces and parameters
    registers: int = 0
    static_shared: int = 0
    stack: int = 0
    spilled: int = 0
    ptx: str = ""
    sass: str = ""


@dataclasses.dataclass
class Claim:
    name: str
    threads: int
    registers: int
    shared: int
    blocks: int


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise SystemExit(f"cuda_resources.py: '{words}' failed\n{done.stdout}")
    return done.stdout


def find_tool(name, nvcc=None):
    beside = [pathlib.Path(nvcc).parent / name] if nvcc else []
    chosen = [os.environ.get(name.upper()), shutil.which(name), "/usr/local/cuda/bin/" + name]
    return next((str(path) for path in chosen + beside if path and os.path.exists(path)), None)


def plain_name(demangled):
    """`void a::(anonymous namespace)::f<a::G<1, 2> >(int)` is `f<G<1, 2>>`."""
    name = re.sub(r"\(anonymous namespace\)::|\b\w+::", "", demangled)
    name = re.sub(r"^void ", "", name)
    depth = 0
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            name = name[:i]
            break
    return re.sub(r"\s+>", ">", name)


def parts(text, header):
    """Splits text before each match of the header, whose first group is the key."""
    found = list(re.finditer(header, text, re.M))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match.group(1): text[match.start() : end] for match, end in zip(found, ends)}


def compile_file(source, architecture, tools, folder):
    """Kernels of one file by mangled name."""
    base = pathlib.Path(folder) / f"{source.stem}.{architecture}"
    nvcc, ptxas, cuobjdump = tools
    run([nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", f"-I{ROOT}", "-ptx",
         f"-arch=compute_{architecture}", "-o", f"{base}.ptx", source])
    report = run([ptxas, "-v", "-O3", f"-arch=sm_{architecture}", "-o", f"{base}.cubin",
                  f"{base}.ptx"])
    ptx = parts(pathlib.Path(f"{base}.ptx").read_text(), r"^\s*(?:\.visible )?\.entry (\w+)\(")
    usage = parts(report, r"Compiling entry function '(\w+)'")
    sass = {}
    if cuobjdump:
        sass = parts(run([cuobjdump, "-sass", f"{base}.cubin"]), r"^\s*Function : (\w+)")
    kernels = {}
    for mangled, text in usage.items():
        number = lambda pattern: sum(int(found) for found in re.findall(pattern, text))
        kernels[mangled] = Kernel(
            name=plain_name(run(["c++filt", mangled]).strip()),
            registers=number(r"Used (\d+) registers"),
            static_shared=number(r"(\d+) bytes smem"),
            stack=number(r"(\d+) bytes stack frame"),
            spilled=number(r"(\d+) bytes spill"),
            ptx=ptx[mangled],
            sass=sass.get(mangled, ""),
        )
    return kernels


def claims_in(source):
    pattern = r"// resources: (.+): (\d+) x (\d+) registers, (\d+) B, (\d+) blocks?$"
    found = re.findall(pattern, source.read_text(), re.M)
    return [Claim(name, *map(int, numbers)) for name, *numbers in found]


def blocks_that_fit(kernel, claim, architecture):
    """Registers are given to warps in units of 256; 1 KiB of shared memory per block is taken."""
    warps = (claim.threads + 31) // 32
    registers = warps * ((kernel.registers * 32 + 255) // 256 * 256)
    shared = kernel.static_shared + claim.shared + 1024
    return min(65536 // registers, SHARED_OF[architecture] // shared, 64 // warps, 32)


def complaints_of(kernel, claim, architecture, has_sass):
    wrong = []
    if kernel.spilled:
        wrong.append(f"spills registers ({kernel.spilled} bytes)")
    if kernel.stack:
        wrong.append(f"has a stack frame ({kernel.stack} bytes)")
    if re.search(r"\b(ld|st)\.local", kernel.ptx) or re.search(r"\b(LDL|STL)\b", kernel.sass):
        wrong.append("uses local memory")
    tensor = "mma.sync" in kernel.ptx
    if tensor and not claim:
        wrong.append("multiplies on tensor cores without a 'resources' comment")
    if not claim:
        return wrong
    if not tensor or (has_sass and "HMMA" not in kernel.sass):
        wrong.append("does not multiply on tensor cores")
    if "cp.async" not in kernel.ptx or (has_sass and "LDGSTS" not in kernel.sass):
        wrong.append("does not copy asynchronously")
    if not re.search(rf"\.maxntid {claim.threads}\b", kernel.ptx):
        wrong.append(f"is not bounded to the {claim.threads} threads claimed")
    if kernel.static_shared + claim.shared > MOST_SHARED:
        wrong.append(f"needs more shared memory than a block can have ({MOST_SHARED} bytes)")
    if kernel.registers > claim.registers:
        wrong.append(f"claims at most {claim.registers} registers and has {kernel.registers}")
    fit = blocks_that_fit(kernel, claim, architecture)
    if fit < claim.blocks:
        wrong.append(f"claims {claim.blocks} blocks where {fit} fit")
    return wrong


def check_file(source, kernels_of, has_sass):
    """Prints a line per kernel; complaints as texts."""
    claims = {claim.name: claim for claim in claims_in(source)}
    complaints = []
    for architecture in ARCHITECTURES:
        kernels = kernels_of[source, architecture].values()
        for kernel in sorted(kernels, key=lambda k: k.name):
            claim = claims.get(kernel.name)
            fit = f", {blocks_that_fit(kernel, claim, architecture)} blocks" if claim else ""
            print(f"sm_{architecture} {source.name}: {kernel.name}: "
                  f"{kernel.registers} registers{fit}")
            for wrong in complaints_of(kernel, claim, architecture, has_sass):
                complaints.append(f"{kernel.name} for sm_{architecture} {wrong}")
    names = {kernel.name for kernel in kernels_of[source, ARCHITECTURES[0]].values()}
    complaints += [f"{name} is claimed and not there" for name in claims if name not in names]
    return [f"{source.name}: {complaint}" for complaint in complaints]


def control_verdict(source, complaints):
    """Every expected complaint must be there, and no other."""
    expected = re.findall(r"// complaint: (.+)$", source.read_text(), re.M)
    missing = [text for text in expected if not any(text in found for found in complaints)]
    others = [found for found in complaints if not any(text in found for text in expected)]
    return [f"the check did not find '{text}'" for text in missing] + others


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where compiled files are left")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--control", action="store_true")
    parser.add_argument("sources", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    nvcc = find_tool("nvcc")
    if not nvcc:
        print("skipped: no nvcc (PATH, /usr/local/cuda/bin or the variable NVCC)")
        return 77
    tools = (nvcc, find_tool("ptxas", nvcc), find_tool("cuobjdump", nvcc))
    print("machine code " + (f"read with {tools[2]}" if tools[2] else "not read: no cuobjdump"))
    sources = options.sources or sorted((ROOT / "kernels" / "cuda").glob("*.cu"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        pairs = [(source, architecture) for source in sources for architecture in ARCHITECTURES]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            compiled = pool.map(lambda pair: compile_file(*pair, tools, folder), pairs)
            kernels_of = dict(zip(pairs, compiled))
    complaints = []
    for source in sources:
        found = check_file(source, kernels_of, tools[2] is not None)
        complaints += control_verdict(source, found) if options.control else found
    for complaint in complaints:
        print(f"error: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

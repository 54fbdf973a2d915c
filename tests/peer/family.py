#!/usr/bin/python3
"""The CoLM family in PyTorch, double precision: what the engine's logits and gradients are measured against.

Written from the formulas: y_i = W_i x_{<=i} for every linear, each norm over its own chain, each head inside its own
chain (arXiv 2505.11820), and the public definitions of Llama, Mistral, Qwen, GPT-2 and Gemma. Plain autograd, one head
at a time; nothing here is fast.

  family.py CASE DIR    writes one case: config.json (a checkpoint's configuration), w.TENSOR.npy, tokens.npy and
                        targets.npy (B, T; target -1: none), first.npy (B, T; the first position each one sees, in cases
                        with documents), logits.SCALE.npy (B*T, V), loss.json, g.TENSOR.npy of every trained tensor
  family.py all DIR     every case, in DIR/CASE/
  family.py --list      the cases
  family.py --selftest  the oracle against torch.nn.functional and against itself
"""
import json, math, os, sys, zlib
import numpy as np
import torch
import torch.nn.functional as F

B, T = 2, 12

# ---- configuration ----
PLAIN = dict(vocab=41, context=16, layers=2, head_dim=8, rope_theta=10000.0, norm_eps=1e-5, norm="rms", activation="swiglu",
             position="rope", rope_scaling="plain", kv="own", head="nested", bias_qkv=False, bias_o=False, bias_ffn=False,
             qk_norm=False, post_norms=False, rope_factor=0.0, rope_low=0.0, rope_high=0.0, rope_original=0,
             attn_softcap=0.0, logit_softcap=0.0, window=0, window_every=0)


def chain(width, heads, kv_heads, ffn, embed_scale=1.0, attn_scale=0.0, tied=False):
    return dict(width=width, heads=heads, kv_heads=kv_heads, ffn=ffn, embed_scale=embed_scale, attn_scale=attn_scale, tied=tied)


def config(*chains, **switches):
    assert set(switches) <= set(PLAIN), switches
    return dict(chains=[dict(c) for c in chains], **dict(PLAIN, **switches))


def tied(*chains):
    return [dict(c, tied=True) for c in chains]


ONE = chain(32, 4, 2, 44)
TWO = chain(20, 2, 2, 27), chain(12, 2, 1, 13)  # width is not heads * head_dim, odd feed-forward
THREE = chain(16, 2, 1, 21), chain(12, 3, 3, 10), chain(9, 1, 1, 7)
AIR = chain(24, 4, 2, 30), chain(16, 3, 0, 21)
AIR3 = chain(20, 4, 2, 25), chain(11, 3, 0, 15), chain(8, 1, 0, 9)
GPT2 = dict(norm="layer", activation="gelu", position="learned", bias_qkv=True, bias_o=True, bias_ffn=True)
GEMMA1 = dict(norm="rms_plus_one", activation="geglu", norm_eps=1e-6)
GEMMA2 = dict(GEMMA1, post_norms=True, attn_softcap=0.8, logit_softcap=2.0, window=4, window_every=2, layers=3)
LLAMA3 = dict(rope_scaling="llama3", rope_theta=5e5, rope_factor=8.0, rope_low=1.0, rope_high=4.0, rope_original=512)


def gemma(*chains, **more):
    return [dict(c, embed_scale=math.sqrt(c["width"]), tied=True, **more) for c in chains]


# name: (configuration, further keys: lambdas (weights of the scales' losses), trained, documents, holes (rows without a target))
CASES = dict(
    dense=(config(ONE), {}),
    gqa_unequal=(config(chain(20, 4, 2, 27), chain(12, 3, 1, 13), layers=3), {}),
    air_grouped=(config(*AIR, kv="grouped"), {}),
    air_tiled=(config(chain(24, 3, 2, 30), chain(16, 4, 0, 21), kv="tiled"), {}),
    air_frozen=(config(*AIR3, kv="grouped"), dict(trained={"frozen": 1})),
    air_switches=(config(*AIR3, kv="tiled", bias_qkv=True, bias_o=True, qk_norm=True, window=6), {}),
    tie_all=(config(*tied(*TWO)), {}),
    tie_first=(config(*tied(TWO[0]), TWO[1]), {}),
    tie_frozen=(config(*tied(*THREE)), dict(trained={"frozen": 1}, lambdas=[.2, .3, .5])),
    separate_heads=(config(*THREE, head="separate"), dict(lambdas=[.2, .5, .3])),
    separate_full=(config(*TWO, head="separate"), {}),
    multi_loss=(config(*THREE), dict(lambdas=[.5, .3, .2])),
    multi_frozen=(config(*THREE), dict(lambdas=[.5, .3, .2], trained={"frozen": 2})),
    loss_at_scale_1=(config(*TWO), dict(lambdas=[1, 0])),
    loss_at_scale_2=(config(*THREE), dict(lambdas=[0, 1, 0])),
    head_only=(config(*TWO), dict(trained="head", lambdas=[.4, .6])),
    head_only_separate=(config(*TWO, head="separate"), dict(trained="head", lambdas=[.4, .6])),
    llama3=(config(*TWO, **LLAMA3), {}),
    linear_rope=(config(*TWO, rope_scaling="linear", rope_factor=2.5), {}),
    mistral=(config(chain(20, 4, 2, 27), chain(12, 2, 1, 13), window=5, layers=3), {}),
    qwen2=(config(*tied(*TWO), bias_qkv=True, rope_theta=1e6, norm_eps=1e-6), {}),
    qwen3=(config(*TWO, qk_norm=True, rope_theta=1e6, norm_eps=1e-6), {}),
    gpt2=(config(*tied(chain(24, 3, 3, 40), chain(16, 2, 2, 25)), **GPT2), {}),
    gemma1=(config(*gemma(chain(20, 3, 1, 27), chain(12, 2, 1, 13)), **GEMMA1), {}),
    gemma2=(config(*gemma(chain(20, 2, 1, 27), chain(12, 2, 2, 13), attn_scale=0.25), **GEMMA2), {}),
    gemma2_frozen=(config(*gemma(*TWO, attn_scale=0.5), **GEMMA2), dict(trained={"frozen": 1}, lambdas=[.25, .75])),
    gelu_erf=(config(*TWO, activation="gelu_erf"), {}),
    documents=(config(*TWO), dict(documents=True)),
    documents_window=(config(*AIR, kv="grouped", window=4), dict(documents=True)),
    ignored_targets=(config(*TWO), dict(holes=True)),
    frozen_prefix=(config(*THREE, bias_qkv=True, bias_o=True, bias_ffn=True, qk_norm=True), dict(trained={"frozen": 1})),
    frozen_layernorm=(config(*THREE, **GPT2), dict(trained={"frozen": 2})),
)


# ---- tensors ----
def tensors(c):
    """{name: shape}: all parameters of a configuration."""
    ret, hd, ch = {}, c["head_dim"], c["chains"]
    gated = c["activation"] in ("swiglu", "geglu")
    for i, k in enumerate(ch):
        D = sum(x["width"] for x in ch[:i + 1])
        Q = sum(x["heads"] for x in ch[:i + 1]) * hd
        W = sum(x["ffn"] for x in ch[:i + 1])
        d, q, kv, f = k["width"], k["heads"] * hd, k["kv_heads"] * hd, k["ffn"]
        owns_kv = c["kv"] == "own" or i == 0
        n = i + 1
        ret[f"embed.{n}"] = (c["vocab"], d)
        if c["position"] == "learned": ret[f"pos.{n}"] = (c["context"], d)
        for l in range(c["layers"]):
            t = {"norm1": (d,), "q": (q, D), "o": (d, Q), "norm2": (d,), "w1": (f, D), "w2": (d, W)}
            if owns_kv: t.update(k=(kv, D), v=(kv, D))
            if gated: t.update(w3=(f, D))
            if c["norm"] == "layer": t.update(norm1b=(d,), norm2b=(d,))
            if c["bias_qkv"]: t.update(bq=(q,))
            if c["bias_qkv"] and owns_kv: t.update(bk=(kv,), bv=(kv,))
            if c["bias_o"]: t.update(bo=(d,))
            if c["bias_ffn"]: t.update(b1=(f,), b2=(d,))
            if c["bias_ffn"] and gated: t.update(b3=(f,))
            if c["qk_norm"]: t.update(qn=(hd,))
            if c["qk_norm"] and owns_kv: t.update(kn=(hd,))
            if c["post_norms"]: t.update(post1=(d,), post2=(d,))
            ret.update({f"layers.{l}.{name}.{n}": shape for name, shape in t.items()})
        ret[f"normf.{n}"] = (d,)
        if c["norm"] == "layer": ret[f"normfb.{n}"] = (d,)
        if c["head"] == "separate": ret[f"head.{n}"] = (c["vocab"], D)
        elif not k["tied"]: ret[f"head.{n}"] = (c["vocab"], d)
    return ret


GAINS = ("norm1", "norm2", "normf", "qn", "kn", "post1", "post2")


def parameters(c, rng):
    """Random, away from any symmetry, and exactly what float32 holds."""
    ret = {}
    for name, shape in tensors(c).items():
        kind = name.split(".")[-2]
        x = rng.standard_normal(shape) * (0.1 if len(shape) == 1 else 0.15)
        if kind in GAINS and c["norm"] != "rms_plus_one": x += 1
        ret[name] = torch.tensor(x.astype(np.float32).astype(np.float64), requires_grad=True)
    return ret


# ---- the model ----
def rms(c, x, g):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + c["norm_eps"]) * (1 + g if c["norm"] == "rms_plus_one" else g)


def norm(c, P, name, n, x):
    """Norm of chain n (from 1) over its own columns."""
    g = P[f"{name}.{n}"]
    if c["norm"] != "layer": return rms(c, x, g)
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred ** 2).mean(-1, keepdim=True) + c["norm_eps"]) * g + P[f"{name}b.{n}"]


def linear(P, weight, bias, n, xs):
    """y_n = W_n x_{<=n} + b_n; the bias where the model has one."""
    y = torch.cat(xs[:n], -1) @ P[f"{weight}.{n}"].T
    return y + P[f"{bias}.{n}"] if f"{bias}.{n}" in P else y


def rope_frequencies(c):
    ret = []
    for j in range(c["head_dim"] // 2):
        f = c["rope_theta"] ** (-2 * j / c["head_dim"])
        if c["rope_scaling"] == "linear": f /= c["rope_factor"]
        if c["rope_scaling"] == "llama3":
            turns = c["rope_original"] * f / (2 * math.pi)  # in the context that the model was trained for
            keep = (turns - c["rope_low"]) / (c["rope_high"] - c["rope_low"])
            keep = min(1.0, max(0.0, keep))
            f = keep * f + (1 - keep) * f / c["rope_factor"]
        ret.append(f)
    return torch.tensor(ret, dtype=torch.double)


def rotate(c, x):
    """(B, T, head_dim): pair j is columns j and j + head_dim/2, turned by position * frequency j."""
    if c["position"] != "rope": return x
    angle = torch.outer(torch.arange(x.shape[1], dtype=torch.double), rope_frequencies(c))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def visible(c, layer, first, n_rows, length):
    """(B, T, T): whether query position p sees key position s."""
    p, s = torch.arange(length)[:, None], torch.arange(length)[None, :]
    ok = s <= p
    everything = c["window_every"] and (layer + 1) % c["window_every"] == 0
    if c["window"] and not everything: ok = ok & (s > p - c["window"])
    ok = ok.expand(n_rows, length, length)
    return ok if first is None else ok & (s >= torch.as_tensor(first, dtype=torch.long)[:, :, None])


def kv_head(c, i, j):
    """(chain from 0, head in it) of the key and value that local query head j of chain i (from 0) reads."""
    ch = c["chains"]
    if c["kv"] == "own": return i, j // (ch[i]["heads"] // ch[i]["kv_heads"])
    shared = ch[0]["kv_heads"]
    if c["kv"] == "grouped": return 0, j * shared // ch[i]["heads"]
    return 0, (sum(x["heads"] for x in ch[:i]) + j) % shared


def attention(c, P, layer, hs, first):
    """[head outputs of each chain], before o."""
    at, hd = f"layers.{layer}", c["head_dim"]
    heads = lambda y: y.split(hd, -1)

    def normed(kind, n, x):
        return rotate(c, rms(c, x, P[f"{at}.{kind}.{n}"]) if c["qk_norm"] else x)

    keys, values, out = {}, {}, []
    for i, k in enumerate(c["chains"]):
        if c["kv"] != "own" and i > 0: continue
        for j, x in enumerate(heads(linear(P, f"{at}.k", f"{at}.bk", i + 1, hs))): keys[i, j] = normed("kn", i + 1, x)
        for j, x in enumerate(heads(linear(P, f"{at}.v", f"{at}.bv", i + 1, hs))): values[i, j] = x
    ok = visible(c, layer, first, *hs[0].shape[:2])
    for i, k in enumerate(c["chains"]):
        mine = []
        for j, q in enumerate(heads(linear(P, f"{at}.q", f"{at}.bq", i + 1, hs))):
            s = normed("qn", i + 1, q) @ keys[kv_head(c, i, j)].transpose(1, 2) * (k["attn_scale"] or 1 / math.sqrt(hd))
            if c["attn_softcap"]: s = c["attn_softcap"] * torch.tanh(s / c["attn_softcap"])
            mine.append(torch.softmax(s.masked_fill(~ok, -math.inf), -1) @ values[kv_head(c, i, j)])
        out.append(torch.cat(mine, -1))
    return out


def act(c, x):
    if c["activation"] == "swiglu": return x / (1 + torch.exp(-x))
    if c["activation"] == "gelu_erf": return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def feed_forward(c, P, layer, hs):
    """[product of each chain], before w2."""
    at, out = f"layers.{layer}", []
    for n in range(1, len(hs) + 1):
        y = act(c, linear(P, f"{at}.w1", f"{at}.b1", n, hs))
        if c["activation"] in ("swiglu", "geglu"): y = y * linear(P, f"{at}.w3", f"{at}.b3", n, hs)
        out.append(y)
    return out


def logits(c, P, tokens, first=None):
    """[(B, T, V) of scale 1, 2, ..]."""
    tokens = torch.as_tensor(tokens, dtype=torch.long)
    chains = range(1, len(c["chains"]) + 1)
    xs = [P[f"embed.{n}"][tokens] * c["chains"][n - 1]["embed_scale"] for n in chains]
    if c["position"] == "learned": xs = [x + P[f"pos.{n}"][:tokens.shape[1]] for n, x in zip(chains, xs)]
    for l in range(c["layers"]):
        at = f"layers.{l}"

        def add(parts, weight, bias, post):
            ys = [linear(P, f"{at}.{weight}", f"{at}.{bias}", n, parts) for n in chains]
            if c["post_norms"]: ys = [rms(c, y, P[f"{at}.{post}.{n}"]) for n, y in zip(chains, ys)]
            return [x + y for x, y in zip(xs, ys)]

        xs = add(attention(c, P, l, [norm(c, P, f"{at}.norm1", n, x) for n, x in zip(chains, xs)], first), "o", "bo", "post1")
        xs = add(feed_forward(c, P, l, [norm(c, P, f"{at}.norm2", n, x) for n, x in zip(chains, xs)]), "w2", "b2", "post2")
    xs = [norm(c, P, "normf", n, x) for n, x in zip(chains, xs)]
    ret, total = [], 0
    for n in chains:
        if c["head"] == "separate":
            total = torch.cat(xs[:n], -1) @ P[f"head.{n}"].T
        else:
            total = total + xs[n - 1] @ P[f"embed.{n}" if c["chains"][n - 1]["tied"] else f"head.{n}"].T
        ret.append(c["logit_softcap"] * torch.tanh(total / c["logit_softcap"]) if c["logit_softcap"] else total)
    return ret


def loss(scales, targets, lambdas):
    """sum_i lambda_i CE_i, each the mean over the positions that have a target."""
    targets = torch.as_tensor(targets, dtype=torch.long)
    has = targets >= 0
    total = 0
    for weight, z in zip(lambdas, scales):
        if weight == 0: continue
        log_p = z - torch.logsumexp(z, -1, keepdim=True)
        total = total - weight * log_p[has].gather(-1, targets[has][:, None]).mean()
    return total


# ---- cases ----
def is_trained(name, trained):
    if trained == "all": return True
    if trained == "head": return name.startswith("head.")
    return int(name.rsplit(".", 1)[1]) > trained["frozen"]


def document_starts(tokens):
    """Token 0 ends a document; a position sees from the position after the last 0 before it."""
    first = np.zeros_like(tokens)
    for b in range(tokens.shape[0]):
        for t in range(1, tokens.shape[1]): first[b, t] = t if tokens[b, t - 1] == 0 else first[b, t - 1]
    return first


def make(name):
    """All of a case: configuration, parameters, tokens, targets, first (or None), lambdas, trained."""
    c, more = CASES[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    P = parameters(c, rng)
    tokens = rng.integers(1, c["vocab"], (B, T)).astype(np.int32)
    targets = rng.integers(0, c["vocab"], (B, T)).astype(np.int32)
    if more.get("holes"): targets[0, ::3] = targets[1, -4:] = -1
    first = None
    if more.get("documents"):
        tokens[0, [3, 4, 9]] = tokens[1, 6] = 0
        first = document_starts(tokens)
    lambdas = more.get("lambdas") or [0] * (len(c["chains"]) - 1) + [1]
    return c, P, tokens, targets, first, lambdas, more.get("trained", "all")


def write(name, folder):
    os.makedirs(folder, exist_ok=True)
    c, P, tokens, targets, first, lambdas, trained = make(name)

    def put(file, x, dtype=np.float32):
        np.save(os.path.join(folder, file + ".npy"), np.ascontiguousarray(x, dtype=dtype))

    scales = logits(c, P, tokens, first)
    value = loss(scales, targets, lambdas)
    value.backward()
    with open(os.path.join(folder, "config.json"), "w") as f: json.dump(c, f)
    with open(os.path.join(folder, "loss.json"), "w") as f:
        json.dump({"lambda": [float(x) for x in lambdas], "loss": value.item(), "trained": trained}, f)
    put("tokens", tokens, np.int32)
    put("targets", targets, np.int32)
    if first is not None: put("first", first, np.int32)
    for i, z in enumerate(scales): put(f"logits.{i + 1}", z.detach().reshape(B * T, -1).numpy())
    for n, w in P.items():
        put("w." + n, w.detach().numpy())
        if is_trained(n, trained): put("g." + n, (torch.zeros_like(w) if w.grad is None else w.grad).numpy())


# ---- selftest ----
def near(a, b, what, tol=1e-12):
    error = (a - b).abs().max().item()
    assert error <= tol, f"{what}: {error}"


def selftest():
    with torch.no_grad(): check_parts()
    for name in CASES: check_case(name)
    print("selftest ok")


def check_parts():
    rng = np.random.default_rng(1)
    normal = lambda *shape: torch.tensor(rng.standard_normal(shape))

    # A chain linear is the dense one under a block-lower-triangular mask.
    ins, outs, xs = (4, 2, 3), (3, 5, 2), [normal(7, k) for k in (4, 2, 3)]
    P = {f"w.{i + 1}": normal(outs[i], sum(ins[:i + 1])) for i in range(3)}
    whole = torch.cat([F.pad(P[f"w.{i}"], (0, 9 - P[f"w.{i}"].shape[1])) for i in (1, 2, 3)])
    near(torch.cat([linear(P, "w", "b", n, xs) for n in (1, 2, 3)], -1), F.linear(torch.cat(xs, -1), whole), "chain linear")

    # Functions that torch has too.
    x, g = normal(5, 9), normal(9)
    P = {"n.1": g, "nb.1": normal(9)}
    near(norm(config(ONE, norm="layer"), P, "n", 1, x), F.layer_norm(x, (9,), g, P["nb.1"], 1e-5), "layer norm")
    for kind, f in (("swiglu", F.silu), ("gelu_erf", F.gelu), ("gelu", lambda x: F.gelu(x, approximate="tanh"))):
        near(act(config(ONE, activation=kind), x), f(x), kind)
    t = torch.tensor([[3, -1, 0], [-1, 8, 8]])
    z = normal(2, 3, 9)
    near(loss([z], t, [1]), F.cross_entropy(z.reshape(6, 9), t.reshape(6), ignore_index=-1), "cross-entropy")

    # Rotation: keeps lengths, sees distances only; llama3 keeps fast frequencies and divides slow ones.
    c = config(ONE, **LLAMA3)
    q, k = normal(1, 1, 8).expand(1, 20, 8), normal(1, 1, 8).expand(1, 20, 8)
    s = rotate(c, q)[0] @ rotate(c, k)[0].T
    near(s[5:, 5:], s[:-5, :-5], "rotation")
    near(rotate(c, q).norm(dim=-1), q.norm(dim=-1), "length")
    plain, scaled = rope_frequencies(dict(c, rope_scaling="plain")), rope_frequencies(c)
    ratio = plain / scaled
    assert ratio[0] == 1 and 1 < ratio[1] < 8 and abs(ratio[3] - 8) < 1e-12, ratio

    # One chain of GPT-2 is torch's pre-norm encoder layer under a causal mask.
    c = config(chain(24, 3, 3, 40), **dict(GPT2, activation="gelu_erf", layers=1))
    P = {n: w.detach() for n, w in parameters(c, rng).items()}
    layer = torch.nn.TransformerEncoderLayer(24, 3, 40, 0, "gelu", batch_first=True, norm_first=True).double()
    at = lambda kind: P[f"layers.0.{kind}.1"]
    layer.load_state_dict({
        "self_attn.in_proj_weight": torch.cat([at("q"), at("k"), at("v")]), "self_attn.out_proj.weight": at("o"),
        "self_attn.in_proj_bias": torch.cat([at("bq"), at("bk"), at("bv")]), "self_attn.out_proj.bias": at("bo"),
        "linear1.weight": at("w1"), "linear1.bias": at("b1"), "linear2.weight": at("w2"), "linear2.bias": at("b2"),
        "norm1.weight": at("norm1"), "norm1.bias": at("norm1b"), "norm2.weight": at("norm2"), "norm2.bias": at("norm2b")})
    tokens = torch.tensor(rng.integers(0, 41, (B, T)))
    x = P["embed.1"][tokens] + P["pos.1"][:T]
    x = layer(x, src_mask=torch.full((T, T), -math.inf, dtype=torch.double).triu(1))
    x = F.layer_norm(x, (24,), P["normf.1"], P["normfb.1"]) @ P["head.1"].T
    near(logits(c, P, tokens)[0], x, "GPT-2")

    # Air with heads that are multiples of the shared ones is GQA whose later K and V read x_1 alone.
    c = config(chain(24, 4, 2, 30), chain(16, 2, 0, 21), kv="grouped")
    P = {n: w.detach() for n, w in parameters(c, rng).items()}
    own = dict(c, kv="own", chains=[c["chains"][0], dict(c["chains"][1], kv_heads=2)])
    copy = dict(P, **{f"layers.{l}.{m}.2": F.pad(P[f"layers.{l}.{m}.1"], (0, 16)) for l in (0, 1) for m in "kv"})
    assert {n: tuple(w.shape) for n, w in copy.items()} == tensors(own)
    near(logits(c, P, tokens)[1], logits(own, copy, tokens)[1], "Air")
    maps = {kv: [kv_head(dict(c, chains=list(AIR), kv=kv), 1, j)[1] for j in range(3)] for kv in ("grouped", "tiled")}
    assert maps == {"grouped": [0, 0, 1], "tiled": [0, 1, 0]}, maps

    # A packed window is its documents apart; a window as long as the text is none; a shorter one hides.
    c, P, tokens, _, first, _, _ = make("documents")
    packed = logits(c, P, tokens, first)[1]
    for b, a, e in ((0, 0, 4), (0, 4, 5), (0, 5, 10), (0, 10, T), (1, 0, 7), (1, 7, T)):
        near(packed[b:b + 1, a:e], logits(c, P, tokens[b:b + 1, a:e])[1], "documents")
    near(logits(dict(c, window=T), P, tokens)[1], logits(c, P, tokens)[1], "window")
    c, P = dict(c, window=5, layers=1), dict(P)
    other = torch.tensor(tokens)
    other[:, 3] = 7
    change = (logits(c, P, tokens)[1] - logits(c, P, other)[1]).abs().amax((0, 2))
    assert [p for p in range(T) if change[p] > 0] == [3, 4, 5, 6, 7], change


def check_case(name):
    """Causality over chains, and that every trained tensor matters, where it can."""
    c, P, tokens, targets, first, lambdas, trained = make(name)
    scales = logits(c, P, tokens, first)
    noise = torch.Generator().manual_seed(1)
    for k in range(1, len(scales)):
        later = {n: torch.randn(w.shape, generator=noise, dtype=torch.double) if int(n.rsplit(".", 1)[1]) > k else w for n, w in P.items()}
        assert torch.equal(logits(c, later, tokens, first)[k - 1], scales[k - 1]), f"{name}: scale {k} saw later chains"
    value = loss(scales, targets, lambdas)
    value.backward()
    last = max(i + 1 for i, x in enumerate(lambdas) if x)
    for n, w in P.items():
        size = 0 if w.grad is None else w.grad.abs().max().item()
        n_chain, kind = int(n.rsplit(".", 1)[1]), n.split(".")[-2]
        unused = n_chain > last or (kind == "head" and c["head"] == "separate" and not lambdas[n_chain - 1])
        # Softmax does not see one constant added to all scores: without rotation or soft-cap a key's bias does nothing.
        if kind == "bk" and c["position"] == "learned": assert size < 1e-15, f"{name}: {n} {size}"
        else: assert (size == 0) if unused else (size > 1e-6), f"{name}: {n} {size}"
    # Each switch changes the numbers: a case that loses one must not pass.
    for key, plain in PLAIN.items():
        if c[key] == plain or key in ("layers", "rope_original", "rope_low", "rope_high"): continue
        without = dict(c, **{key: plain})
        if not set(tensors(without)) <= set(P) or any(P[n].shape != s for n, s in tensors(without).items()): continue
        if key == "rope_factor": without["rope_factor"] = 1.0
        changed = logits(without, {n: P[n] for n in tensors(without)}, tokens, first)[-1]
        assert key == "norm_eps" or (changed - scales[-1]).abs().max() > 1e-4, f"{name}: {key} does nothing"


def main(args):
    torch.set_num_threads(1)
    if args == ["--list"]: print("\n".join(CASES))
    elif args == ["--selftest"]: selftest()
    elif len(args) == 2 and args[0] == "all":
        for name in CASES: write(name, os.path.join(args[1], name))
    elif len(args) == 2 and args[0] in CASES: write(*args)
    else: sys.exit(__doc__ + "\nfamily.py: unknown case or arguments: " + " ".join(args))


if __name__ == "__main__":
    main(sys.argv[1:])

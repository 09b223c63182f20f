package engine_test

import (
	"slices"

	"godwit/engine/gguf"
)

// peerModels are the models of TestPeerModels, by name.
func peerModels() map[string]func() *maker {
	return map[string]func() *maker{
		"smollm3":          func() *maker { return llamaLike("smollm3", 5, nil) },
		"gemma":            func() *maker { return llamaLike("gemma", 2, nil) },
		"granite-nope":     graniteNoPE,
		"granitemoe":       graniteMoE,
		"granitehybrid":    graniteHybrid,
		"qwen2moe":         qwen2MoE,
		"qwen3next-legacy": qwen3NextLegacy,
		"chatglm":          chatGLM,
		"glm4-sections":    glm4Sections,
		"lfm2moe":          lfm2MoE,
		"olmo3":            olmo3,
		"command-r-plus":   commandRPlus,
		"deepseek2-lite":   deepSeekLite,
		"llama-merged":     llamaMerged,
		"llama-longrope":   llamaLongRope,
		"llama-scales":     llamaScales,
		"qwen3moe-scales":  qwen3MoEScales,
		"qwen2-both-embed": func() *maker {
			return llamaLike("qwen2", 2, map[string]any{"pooling_type": 1, "attention.causal": false})
		},
		"llama-embed":     func() *maker { return llamaLike("llama", 2, map[string]any{"pooling_type": 1}) },
		"qwen2-embed":     func() *maker { return llamaLike("qwen2", 2, map[string]any{"pooling_type": 3}) },
		"lfm2moe-embed":   func() *maker { m := lfm2MoE(); m.kv["pooling_type"] = 1; return m },
		"llama-lora":      llamaLoRA,
		"granitemoe-lora": graniteMoE,
		"bert":            func() *maker { return bertLike("bert", 1) },
		"bert-first":      func() *maker { return bertLike("bert", 2) },
		"nomic-bert":      func() *maker { return bertLike("nomic-bert", 1) },
		"nomic-bert-moe":  func() *maker { return bertLike("nomic-bert-moe", 1) },
		"jina-bert-v3":    func() *maker { return bertLike("jina-bert-v3", 3) },
	}
}

// peerAdapters are adapters for some of the models: for a matrix, the embedding,
// and all experts of a layer.
var peerAdapters = map[string]func(m *maker) *maker{
	"llama-lora": func(m *maker) *maker {
		return adapterOf(m, "blk.0.attn_qkv.weight", "blk.1.ffn_down.weight", "token_embd.weight")
	},
	"granitemoe-lora": func(m *maker) *maker {
		return adapterOf(m, "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight", "blk.0.attn_q.weight", "blk.1.ffn_gate_shexp.weight")
	},
}

// adapterOf makes an adapter of rank 4 for some weights of a model.
func adapterOf(m *maker, weights ...string) *maker {
	a := &maker{arch: m.arch, state: 99, kv: map[string]any{
		"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0,
	}}
	for _, name := range weights {
		shape := slices.Clone(m.tensors[slices.IndexFunc(m.tensors, func(t gguf.Tensor) bool { return t.Name == name })].Shape)
		if name == "token_embd.weight" {
			a.add(name+".lora_a", 4, shape[1])
			a.add(name+".lora_b", 4, shape[0])
			continue
		}
		a.add(name+".lora_a", append([]int{shape[0], 4}, shape[2:]...)...)
		a.add(name+".lora_b", append([]int{4, shape[1]}, shape[2:]...)...)
	}
	return a
}

const rmsEps = "attention.layer_norm_rms_epsilon"

func with(kv map[string]any, rest map[string]any) map[string]any {
	out := map[string]any{rmsEps: 1e-3}
	for _, m := range []map[string]any{kv, rest} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// llamaLike has the tensors of a small Llama.
func llamaLike(arch string, layers int, rest map[string]any) *maker {
	m := newMaker(arch, layers, with(nil, rest))
	m.add("output_norm.weight", peerEmbd)
	for i := range layers {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.attn(i, 1, false)
		m.ffn(i, peerFeed, "")
	}
	return m
}

var graniteScales = map[string]any{"logit_scale": 0.5, "residual_scale": 0.7, "embedding_scale": 2.0, "attention.scale": 0.2}

func graniteNoPE() *maker {
	return llamaLike("granite", 2, with(graniteScales, map[string]any{"rope.scaling.finetuned": false}))
}

func graniteMoE() *maker {
	m := newMaker("granitemoe", 2, with(graniteScales, map[string]any{
		"expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 24,
	}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.attn(i, 1, false)
		m.moe(i, peerFeed, 4)
		m.ffn(i, 24, "_shexp")
	}
	return m
}

func graniteHybrid() *maker {
	m := newMaker("granitehybrid", 3, with(graniteScales, map[string]any{
		"attention.head_count_kv": []int{0, 1, 0}, "rope.scaling.finetuned": false,
		"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.time_step_rank": 4, "ssm.group_count": 2,
		"rope.dimension_count": peerHead,
	}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 3 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.ffn(i, peerFeed, "")
		if i == 1 {
			m.attn(i, 1, false)
			continue
		}
		m.layer(i, "ssm_in.weight", peerEmbd, 2*64+2*2*16+4)
		m.layer(i, "ssm_conv1d.weight", 4, 64+2*2*16)
		m.layer(i, "ssm_conv1d.bias", 64+2*2*16)
		m.layer(i, "ssm_dt.bias", 4)
		m.layer(i, "ssm_a", 1, 4)
		m.negate()
		m.layer(i, "ssm_d", 1, 4)
		m.layer(i, "ssm_norm.weight", 32, 2)
		m.layer(i, "ssm_out.weight", 64, peerEmbd)
	}
	return m
}

func qwen2MoE() *maker {
	m := newMaker("qwen2moe", 2, with(nil, map[string]any{
		"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24, "expert_shared_feed_forward_length": 40,
	}))
	m.add("output.weight", peerEmbd, peerVocab)
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight", "ffn_gate_inp_shexp.weight")
		m.attn(i, 1, true)
		m.moe(i, 24, 4)
		m.ffn(i, 40, "_shexp")
	}
	return m
}

// qwen3NextLegacy has the epsilon of the published models. With a larger one, the
// norm of queries and keys differs between versions of llama.cpp.
func qwen3NextLegacy() *maker {
	m := newMaker("qwen3next", 2, with(nil, map[string]any{
		rmsEps: 1e-6, "attention.key_length": peerHead, "attention.value_length": peerHead, "rope.dimension_count": 8,
		"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.time_step_rank": 4, "ssm.group_count": 2,
		"full_attention_interval": 2, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24,
		"expert_shared_feed_forward_length": 40,
	}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "post_attention_norm.weight", "ffn_gate_inp_shexp.weight")
		m.moe(i, 24, 4)
		m.ffn(i, 40, "_shexp")
		if i == 1 {
			m.layer(i, "attn_q.weight", peerEmbd, 4*peerHead)
			m.layer(i, "attn_k.weight", peerEmbd, peerHead)
			m.layer(i, "attn_v.weight", peerEmbd, peerHead)
			m.layer(i, "attn_output.weight", 2*peerHead, peerEmbd)
			m.layer(i, "attn_q_norm.weight", peerHead)
			m.layer(i, "attn_k_norm.weight", peerHead)
			continue
		}
		m.layer(i, "ssm_in.weight", peerEmbd, 2*32+2*64)
		m.layer(i, "ssm_ba.weight", peerEmbd, 8)
		m.layer(i, "ssm_conv1d.weight", 4, 2*32+64)
		m.layer(i, "ssm_dt.bias", 4)
		m.layer(i, "ssm_a", 4)
		m.negate()
		m.layer(i, "ssm_norm.weight", 16)
		m.layer(i, "ssm_out.weight", 64, peerEmbd)
	}
	return m
}

func chatGLM() *maker {
	m := newMaker("chatglm", 2, with(nil, map[string]any{"rope.dimension_count": 8}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.layer(i, "attn_qkv.weight", peerEmbd, 4*peerHead)
		m.layer(i, "attn_qkv.bias", 4*peerHead)
		m.layer(i, "attn_output.weight", 2*peerHead, peerEmbd)
		m.layer(i, "ffn_up.weight", peerEmbd, 2*peerFeed)
		m.layer(i, "ffn_down.weight", peerFeed, peerEmbd)
	}
	return m
}

func glm4Sections() *maker {
	m := newMaker("glm4", 2, with(nil, map[string]any{"rope.dimension_count": 16, "rope.dimension_sections": []int{3, 2, 2, 1}}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight", "post_attention_norm.weight", "post_ffw_norm.weight")
		m.attn(i, 1, true)
		m.layer(i, "ffn_up.weight", peerEmbd, 2*peerFeed)
		m.layer(i, "ffn_down.weight", peerFeed, peerEmbd)
	}
	return m
}

func lfm2MoE() *maker {
	m := newMaker("lfm2moe", 3, with(nil, map[string]any{
		"attention.head_count_kv": []int{0, 1, 0}, "shortconv.l_cache": 3, "leading_dense_block_count": 1,
		"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24, "expert_gating_func": 2,
	}))
	m.add("token_embd_norm.weight", peerEmbd)
	for i := range 3 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		if i == 0 {
			m.ffn(i, peerFeed, "")
		} else {
			m.moe(i, 24, 4)
			m.layer(i, "exp_probs_b.bias", 4)
		}
		if i == 1 {
			m.attn(i, 1, false)
			m.layer(i, "attn_q_norm.weight", peerHead)
			m.layer(i, "attn_k_norm.weight", peerHead)
			continue
		}
		m.layer(i, "shortconv.conv.weight", 3, peerEmbd)
		m.layer(i, "shortconv.in_proj.weight", peerEmbd, 3*peerEmbd)
		m.layer(i, "shortconv.out_proj.weight", peerEmbd, peerEmbd)
	}
	return m
}

func olmo3() *maker {
	m := newMaker("olmo2", 4, with(nil, map[string]any{
		"attention.sliding_window": 12, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
		"rope.scaling.original_context_length": 16, "rope.scaling.attn_factor": 1.1,
	}))
	m.add("output.weight", peerEmbd, peerVocab)
	m.add("output_norm.weight", peerEmbd)
	for i := range 4 {
		m.norms(i, "post_attention_norm.weight", "post_ffw_norm.weight", "attn_q_norm.weight")
		m.layer(i, "attn_k_norm.weight", peerHead)
		m.attn(i, 1, false)
		m.ffn(i, peerFeed, "")
	}
	return m
}

// commandRPlus has so many layers that llama.cpp expects head norms.
func commandRPlus() *maker {
	m := newMaker("command-r", 64, map[string]any{
		"attention.layer_norm_epsilon": 1e-3, "logit_scale": 0.5, "feed_forward_length": 8,
	})
	m.add("output_norm.weight", peerEmbd)
	for i := range 64 {
		m.norms(i, "attn_norm.weight")
		m.attn(i, 1, false)
		m.layer(i, "attn_q_norm.weight", peerHead, 2)
		m.layer(i, "attn_k_norm.weight", peerHead, 1)
		m.ffn(i, 8, "")
	}
	return m
}

// deepSeekLite has no compressed query. Its key projection is absorbed into the
// queries, and the queries are scaled up with the position.
func deepSeekLite() *maker {
	m := newMaker("deepseek2", 27, with(nil, map[string]any{
		"attention.head_count_kv": 1, "attention.key_length": 40, "attention.value_length": 32,
		"attention.key_length_mla": 24, "attention.value_length_mla": 16, "attention.kv_lora_rank": 32,
		"rope.dimension_count": 8, "leading_dense_block_count": 26, "feed_forward_length": 8, "expert_count": 4, "expert_used_count": 2,
		"expert_shared_count": 2, "expert_feed_forward_length": 12, "expert_weights_norm": true,
		"attention.temperature_scale": 0.3, "attention.temperature_length": 8,
		"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
		"rope.scaling.yarn_log_multiplier": 0.0707,
	}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 27 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.layer(i, "attn_q.weight", peerEmbd, 2*24)
		m.layer(i, "attn_kv_a_mqa.weight", peerEmbd, 40)
		m.layer(i, "attn_kv_a_norm.weight", 32)
		m.layer(i, "attn_k_b.weight", 16, 32, 2)
		m.layer(i, "attn_v_b.weight", 32, 16, 2)
		m.layer(i, "attn_output.weight", 2*16, peerEmbd)
		if i < 26 {
			m.ffn(i, 8, "")
			continue
		}
		m.moe(i, 12, 4)
		m.ffn(i, 24, "_shexp")
	}
	return m
}

// llamaMerged has q, k and v in one matrix with separate biases, and biases on all
// other matrices.
func llamaMerged() *maker {
	m := newMaker("llama", 2, with(nil, nil))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight", "attn_output.bias", "ffn_down.bias")
		m.layer(i, "attn_qkv.weight", peerEmbd, 4*peerHead)
		m.layer(i, "attn_q.bias", 2*peerHead)
		m.layer(i, "attn_k.bias", peerHead)
		m.layer(i, "attn_v.bias", peerHead)
		m.layer(i, "attn_output.weight", 2*peerHead, peerEmbd)
		m.ffn(i, peerFeed, "")
		m.layer(i, "ffn_gate.bias", peerFeed)
		m.layer(i, "ffn_up.bias", peerFeed)
	}
	return m
}

// llamaScales has matrices with separate scales, like NVFP4 files.
func llamaScales() *maker {
	m := llamaLike("llama", 2, nil)
	for i := range 2 {
		for _, name := range []string{"attn_q.scale", "attn_k.scale", "attn_output.scale", "ffn_up.scale", "ffn_down.scale"} {
			m.layer(i, name, 1)
		}
	}
	return m
}

// qwen3MoEScales has experts with one scale each.
func qwen3MoEScales() *maker {
	m := newMaker("qwen3moe", 2, with(nil, map[string]any{"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24}))
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.attn(i, 1, false)
		m.layer(i, "attn_q_norm.weight", peerHead)
		m.layer(i, "attn_k_norm.weight", peerHead)
		m.moe(i, 24, 4)
		for _, name := range []string{"ffn_gate_exps.scale", "ffn_up_exps.scale", "ffn_down_exps.scale"} {
			m.layer(i, name, 4)
		}
	}
	return m
}

// llamaLoRA has a separate output matrix, because llama.cpp cannot adapt an
// embedding that is also the output.
func llamaLoRA() *maker {
	m := llamaMerged()
	m.add("output.weight", peerEmbd, peerVocab)
	return m
}

func llamaLongRope() *maker {
	m := llamaLike("llama", 2, map[string]any{
		"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 32, "rope.scaling.attn_factor": 1.2,
	})
	m.add("rope_factors_long.weight", peerHead/2)
	m.add("rope_factors_short.weight", peerHead/2)
	return m
}

// bertLike is a small embedding model.
func bertLike(arch string, pooling int) *maker {
	m := newMaker(arch, 3, map[string]any{
		"attention.layer_norm_epsilon": 1e-3, "attention.head_count_kv": 2, "attention.causal": false,
		"pooling_type": pooling, "tokenizer.ggml.token_type_count": 2,
	})
	m.add("token_types.weight", peerEmbd, 2)
	m.add("token_embd_norm.weight", peerEmbd)
	m.add("token_embd_norm.bias", peerEmbd)
	switch arch {
	case "bert":
		m.add("position_embd.weight", peerEmbd, 512)
	case "nomic-bert-moe":
		for k, v := range map[string]any{"moe_every_n_layers": 2, "expert_count": 4, "expert_used_count": 2} {
			m.kv[k] = v
		}
	}
	for i := range 3 {
		m.norms(i, "attn_output_norm.weight", "attn_output_norm.bias", "layer_output_norm.weight", "layer_output_norm.bias", "attn_output.bias")
		m.attn(i, 2, true)
		switch {
		case arch == "nomic-bert":
			m.ffn(i, peerFeed, "")
		case arch == "nomic-bert-moe" && i == 1:
			m.layer(i, "ffn_gate_inp.weight", peerEmbd, 4)
			m.layer(i, "ffn_up_exps.weight", peerEmbd, peerFeed, 4)
			m.layer(i, "ffn_down_exps.weight", peerFeed, peerEmbd, 4)
		default:
			m.layer(i, "ffn_up.weight", peerEmbd, peerFeed)
			m.layer(i, "ffn_up.bias", peerFeed)
			m.layer(i, "ffn_down.weight", peerFeed, peerEmbd)
			m.layer(i, "ffn_down.bias", peerEmbd)
		}
	}
	return m
}

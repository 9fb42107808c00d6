"""Gradients of single texts and images in a private loop, of models of transformers with padding, one by one."""

import pytest
import torch
import transformers
from private_loops import largest_difference
from torch.nn import functional

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
SIZE, LENGTH = 5, 7
WORDS, LABELS = torch.randint(3, 30, (SIZE, LENGTH)), torch.randint(0, 3, (SIZE,))
MASK = torch.ones(SIZE, LENGTH, dtype=torch.int64)
MASK[1, 4:] = MASK[2, 5:] = 0
IMAGES = torch.randn(SIZE, 3, 16, 16)
COMMON = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
    "num_labels": 3,
}
FEW_KEYS = {**COMMON, "num_key_value_heads": 1}
GPT = {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "pad_token_id": 0}
OPT = {
    **{name: COMMON[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")},
    "ffn_dim": 20,
    "max_position_embeddings": 16,
    "word_embed_proj_dim": 16,
    "pad_token_id": 0,
}
BART = {
    "vocab_size": 30,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
VISION = {
    **{name: COMMON[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")},
    "intermediate_size": 20,
    "image_size": 16,
    "patch_size": 8,
    "num_channels": 3,
    "num_labels": 3,
}
CONVNEXT = {
    "num_channels": 3,
    "hidden_sizes": [4, 8, 8, 8],
    "depths": [1, 1, 1, 1],
    "image_size": 16,
    "patch_size": 1,
    "num_labels": 3,
    "drop_path_rate": 0.0,
}
DISTIL = {
    "vocab_size": 30,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 20,
    "max_position_embeddings": 16,
    "num_labels": 3,
    "seq_classif_dropout": 0.0,
}
T5 = {"vocab_size": 30, "d_model": 16, "d_kv": 8, "d_ff": 20, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0}


def classified(model, words, mask, labels):
    return functional.cross_entropy(model(input_ids=words, attention_mask=mask).logits, labels)


def predicted(model, words, mask, _):
    logits = model(input_ids=words, attention_mask=mask).logits
    return functional.cross_entropy(logits[:, :-1].transpose(1, 2), words[:, 1:])


def translated(model, words, mask, _):
    logits = model(input_ids=words, attention_mask=mask, decoder_input_ids=words).logits
    return functional.cross_entropy(logits.transpose(1, 2), words)


def seen(model, images, labels):
    return functional.cross_entropy(model(pixel_values=images).logits, labels)


TEXT, PICTURES = (WORDS, MASK, LABELS), (IMAGES, LABELS)
TOGETHER, ONE_BY_ONE = "together", "one by one"
MODELS = {
    "BertForSequenceClassification": ("BertConfig", COMMON, classified, TOGETHER),
    "RobertaForSequenceClassification": ("RobertaConfig", COMMON, classified, TOGETHER),
    "DistilBertForSequenceClassification": ("DistilBertConfig", DISTIL, classified, TOGETHER),
    "AlbertForSequenceClassification": ("AlbertConfig", {**COMMON, "embedding_size": 8}, classified, TOGETHER),
    "ElectraForSequenceClassification": ("ElectraConfig", {**COMMON, "embedding_size": 8}, classified, TOGETHER),
    "DebertaV2ForSequenceClassification": ("DebertaV2Config", COMMON, classified, TOGETHER),
    "MPNetForSequenceClassification": ("MPNetConfig", COMMON, classified, ONE_BY_ONE),
    "GPT2LMHeadModel": ("GPT2Config", GPT, predicted, TOGETHER),
    "LlamaForCausalLM": ("LlamaConfig", FEW_KEYS, predicted, TOGETHER),
    "MistralForCausalLM": ("MistralConfig", FEW_KEYS, predicted, TOGETHER),
    "Qwen2ForCausalLM": ("Qwen2Config", FEW_KEYS, predicted, TOGETHER),
    "GemmaForCausalLM": ("GemmaConfig", {**FEW_KEYS, "head_dim": 8}, predicted, ONE_BY_ONE),
    "OPTForCausalLM": ("OPTConfig", OPT, predicted, ONE_BY_ONE),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", COMMON, predicted, TOGETHER),
    "BloomForCausalLM": ("BloomConfig", {**GPT, "hidden_size": 16}, predicted, TOGETHER),
    "PhiForCausalLM": ("PhiConfig", COMMON, predicted, TOGETHER),
    "T5ForConditionalGeneration": ("T5Config", T5, translated, ONE_BY_ONE),
    "BartForConditionalGeneration": ("BartConfig", BART, translated, TOGETHER),
    "ViTForImageClassification": ("ViTConfig", VISION, seen, TOGETHER),
    "DeiTForImageClassification": ("DeiTConfig", VISION, seen, TOGETHER),
    "ConvNextForImageClassification": ("ConvNextConfig", CONVNEXT, seen, TOGETHER),
}


def tiny(name, config, options):
    made = getattr(transformers, config)(**options)
    for key, value in vars(made).items():
        if "drop" in key and isinstance(value, float):
            setattr(made, key, 0.0)
    made.use_cache = False
    torch.manual_seed(1)
    return getattr(transformers, name)(made).train()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_texts_with_padding_and_of_images_are_right(name):
    config, options, loss, way = MODELS[name]

    difference, training = largest_difference(tiny(name, config, options), loss, PICTURES if loss is seen else TEXT)

    assert training.way == way, training.reason
    assert difference < 5e-6  # float32 through 2 layers with attention

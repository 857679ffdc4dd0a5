#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backends/models.hpp"

namespace lathe::test {

/// A small language model as `lathe export gpt2` writes one: two layers of causal attention with two heads, 64 tokens
/// and places for as many. Both phases have the same weights. At place 34 scores become NaN, and stay so behind it.
class TinyDecoder {
public:
    static constexpr std::int64_t vocabulary = 64;
    static constexpr int layers = 2;

    static Model prefill() { return model(false, 64); }
    /// With so many places; of more than 64 each is a good one.
    static Model decode(std::int64_t places = 64) { return model(true, places); }

    /// Options of `lathe build` for a decoder with a past of at most `most` tokens, and at most so many texts.
    static std::string shapes(std::int64_t most, std::int64_t texts = 1) {
        const std::string n = std::to_string(texts);
        const auto range = [&](const std::string& least, const std::string& best, const std::string& last) {
            return "1x" + least + ".." + n + "x" + best + ".." + n + "x" + last;
        };
        std::string options = " --shape input_ids:" + range("1", "1", "1") +
                              " --shape position_ids:" + range("1", "1", "1") +
                              " --shape attention_mask:" + range("2", "8", std::to_string(most + 1));
        for (int layer = 0; layer < layers; ++layer) {
            for (const char* kind : {"key", "value"})
                options += " --shape past_key_values." + std::to_string(layer) + "." + kind + ":" +
                           range("2x1x8", "2x7x8", "2x" + std::to_string(most) + "x8");
        }
        return options;
    }
    static std::string prefill_shapes(std::int64_t most) {
        std::string options;
        for (const char* name : {"input_ids", "attention_mask", "position_ids"})
            options += std::string(" --shape ") + name + ":1x1..1x8..1x" + std::to_string(most);
        return options;
    }

private:
    static Model model(bool decode, std::int64_t positions) {
        std::string text = "opset 18\n";
        text += decode ? "input %input_ids: int64[batch, 1]\n"
                         "input %attention_mask: int64[batch, total]\n"
                         "input %position_ids: int64[batch, 1]\n"
                       : "input %input_ids: int64[batch, sequence]\n"
                         "input %attention_mask: int64[batch, sequence]\n"
                         "input %position_ids: int64[batch, sequence]\n";
        std::string pasts;
        std::string presents;
        for (int layer = 0; layer < layers; ++layer) {
            for (const char* kind : {"key", "value"}) {
                const std::string name = std::to_string(layer) + "." + kind;
                pasts += "input %past_key_values." + name + ": float32[batch, 2, past, 8]\n";
                presents +=
                    "output %present." + name + ": float32[batch, 2, " + (decode ? "total" : "sequence") + ", 8]\n";
            }
        }
        if (decode) text += pasts;
        std::string weights = "input %table: float32[64, 16]\ninput %places: float32[" + std::to_string(positions) +
                              ", 16]\n"
                              "input %head: float32[16, 64]\n";
        for (int layer = 0; layer < layers; ++layer) {
            for (const char* which : {"q", "k", "v", "o"})
                weights += "input %w" + std::string(which) + std::to_string(layer) + ": float32[16, 16]\n";
        }
        text += weights;
        text += "const %one: float32[] = {1.0}\n"
                "const %lowest: float32[] = {-3.4e38}\n"
                "const %scale: float32[] = {0.3535534}\n"
                "const %split: int64[4] = {0, 0, 2, 8}\n"
                "const %joined: int64[3] = {0, 0, 16}\n"
                "const %last: int64[] = {-1}\n"
                "const %axis1: int64[1] = {1}\n"
                "const %axis2: int64[1] = {2}\n"
                "const %axes: int64[2] = {1, 2}\n"
                "%words = Gather(%table, %input_ids)\n"
                "%where = Gather(%places, %position_ids)\n"
                "%x0 = Add(%words, %where)\n";
        if (decode) {
            text += "%seen = Cast(%attention_mask) {to = 1}\n"
                    "%allowed = Unsqueeze(%seen, %axes)\n";
        } else {
            // A token sees those whose place is not behind its own.
            text += "%rows = Unsqueeze(%position_ids, %axis2)\n"
                    "%columns = Unsqueeze(%position_ids, %axis1)\n"
                    "%before = LessOrEqual(%columns, %rows)\n"
                    "%order = Cast(%before) {to = 1}\n"
                    "%seen = Cast(%attention_mask) {to = 1}\n"
                    "%tokens = Unsqueeze(%seen, %axis1)\n"
                    "%both = Mul(%order, %tokens)\n"
                    "%allowed = Unsqueeze(%both, %axis1)\n";
        }
        text += "%hidden = Sub(%one, %allowed)\n"
                "%bias = Mul(%hidden, %lowest)\n";
        for (int layer = 0; layer < layers; ++layer)
            text += attention(std::to_string(layer), std::to_string(layer + 1), decode);
        text += "%end = Gather(%x" + std::to_string(layers) +
                ", %last) {axis = 1}\n"
                "%logits = MatMul(%end, %head)\n"
                "output %logits: float32[batch, 64]\n" +
                presents;
        Model made = model_from_text(text);
        made.graph.inputs.resize(decode ? 3 + 2 * layers : 3); // the others become constants
        add_weights(made, "table", {64, 16}, 11);
        add_weights(made, "places", {positions, 16}, 12);
        add_weights(made, "head", {16, 64}, 13);
        for (int layer = 0; layer < layers; ++layer) {
            const auto seed = static_cast<std::uint32_t>(20 + 4 * layer);
            const std::string number = std::to_string(layer);
            add_weights(made, "wq" + number, {16, 16}, seed);
            add_weights(made, "wk" + number, {16, 16}, seed + 1);
            add_weights(made, "wv" + number, {16, 16}, seed + 2);
            add_weights(made, "wo" + number, {16, 16}, seed + 3);
        }
        if (positions > 64) return made;
        std::vector<float> places = made.graph.initializers.at("places").to_floats();
        std::fill_n(places.begin() + 34 * 16, 16, std::numeric_limits<float>::quiet_NaN());
        made.graph.initializers.insert_or_assign("places", Tensor::of_floats("places", {64, 16}, places));
        return made;
    }

    static std::string attention(const std::string& n, const std::string& next, bool decode) {
        std::string text;
        for (const std::string which : {"q", "k", "v"}) {
            text += "%" + which + "p" + n + " = MatMul(%x" + n + ", %w" + which + n + ")\n";
            text += "%" + which + "s" + n + " = Reshape(%" + which + "p" + n + ", %split)\n";
            const bool kept = which != "q" && !decode;
            const std::string present = "%present." + n + (which == "k" ? ".key" : ".value");
            text += (kept ? present : "%" + which + "h" + n) + " = Transpose(%" + which + "s" + n +
                    ") {perm = [0, 2, 1, 3]}\n";
            if (which != "q" && decode) {
                text += present + " = Concat(%past_key_values." + n + (which == "k" ? ".key" : ".value") + ", %" +
                        which + "h" + n + ") {axis = 2}\n";
            }
        }
        text += "%kt" + n + " = Transpose(%present." + n + ".key) {perm = [0, 1, 3, 2]}\n";
        text += "%qk" + n + " = MatMul(%qh" + n + ", %kt" + n + ")\n";
        text += "%scaled" + n + " = Mul(%qk" + n + ", %scale)\n";
        text += "%masked" + n + " = Add(%scaled" + n + ", %bias)\n";
        text += "%weights" + n + " = Softmax(%masked" + n + ") {axis = -1}\n";
        text += "%mixed" + n + " = MatMul(%weights" + n + ", %present." + n + ".value)\n";
        text += "%turned" + n + " = Transpose(%mixed" + n + ") {perm = [0, 2, 1, 3]}\n";
        text += "%flat" + n + " = Reshape(%turned" + n + ", %joined)\n";
        text += "%out" + n + " = MatMul(%flat" + n + ", %wo" + n + ")\n";
        text += "%x" + next + " = Add(%x" + n + ", %out" + n + ")\n";
        return text;
    }
};

} // namespace lathe::test

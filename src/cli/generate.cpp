#include "cli/generate.hpp"

#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "backends/openvino/tokenizer.hpp"
#include "cli/numbers.hpp"
#include "data/detokenizer.hpp"
#include "data/tokenizer.hpp"
#include "runtime/generator.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct Prompt {
    std::string name;
    std::vector<std::int64_t> tokens;
};

Result<std::vector<std::int64_t>> tokens_of(const std::string& text, Tokenizer& tokenizer) {
    const std::vector<std::string> texts{text};
    LATHE_TRY(const Tokens tokens, tokenizer.encode(texts, {}));
    LATHE_TRY(const std::size_t cut, tokenizer.count_cut(texts, {}, tokens));
    if (cut > 0) {
        return Error{ErrorCode::out_of_range,
                     "the text has more than the " + std::to_string(tokenizer.max_length()) +
                         " tokens that the model takes",
                     "--text", "shorten it"};
    }
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
        if (tokens.mask[i] == 1) ids.push_back(tokens.ids[i]);
    }
    return ids;
}

Result<std::vector<std::int64_t>> parse_ids(std::string_view text) {
    std::vector<std::int64_t> tokens;
    const char* next = text.data();
    const char* const end = next + text.size();
    while (true) {
        std::int64_t token = 0;
        const auto [stop, failed] = std::from_chars(next, end, token);
        if (failed != std::errc() || (stop != end && *stop != ',')) {
            return Error{ErrorCode::invalid_argument, "these are no token ids: \"" + std::string(text) + "\"", "--ids",
                         "write 15,4,27"};
        }
        tokens.push_back(token);
        if (stop == end) return tokens;
        next = stop + 1;
    }
}

Result<std::vector<Prompt>> prompts_of(const GenerateOptions& options, const std::vector<std::string>& texts,
                                       const std::string& tokenizer_text, const std::filesystem::path& engine) {
    std::vector<Prompt> prompts;
    for (const std::string& ids : options.ids) {
        LATHE_TRY(std::vector<std::int64_t> tokens, parse_ids(ids));
        prompts.push_back({ids, std::move(tokens)});
    }
    if (!texts.empty()) {
        if (tokenizer_text.empty()) {
            return Error{ErrorCode::invalid_argument, "no engine here carries a tokenizer, so texts are not read",
                         engine.string() + ", --text", "give --prefill an engine that has one, or tokens with --ids"};
        }
        LATHE_TRY(const std::shared_ptr<Tokenizer> tokenizer, openvino::make_tokenizer(tokenizer_text, 0));
        for (const std::string& text : texts) {
            LATHE_TRY(std::vector<std::int64_t> tokens, tokens_of(text, *tokenizer));
            prompts.push_back({text, std::move(tokens)});
        }
    }
    if (prompts.empty()) {
        return Error{ErrorCode::invalid_argument, "there is no prompt to continue", "--max-tokens",
                     "give --text or --ids"};
    }
    return prompts;
}

std::string text_of(const std::vector<std::int64_t>& prompt, const std::vector<std::int64_t>& tokens,
                    const std::shared_ptr<const Detokenizer>& detokenizer) {
    TextWriter writer(detokenizer, prompt);
    std::string text;
    for (const std::int64_t token : tokens)
        text += writer.next(token);
    return text + writer.end();
}

std::string listed(const std::vector<std::int64_t>& tokens) {
    std::string text;
    for (const std::int64_t token : tokens)
        text += (text.empty() ? "" : " ") + std::to_string(token);
    return text;
}

} // namespace

void add_generate_options(CLI::App& command, GenerateOptions& options) {
    CLI::Option* const most =
        command
            .add_option("--max-tokens", options.max_tokens,
                        "Decoders: continue each --text, or --ids, by at most so many tokens (greedily, unless "
                        "--temperature is given)")
            ->check(positive_number());
    command.add_option("--ids", options.ids, "Decoders: a prompt as token ids, separated by commas; may be repeated")
        ->allow_extra_args(false)
        ->needs(most);
    command
        .add_option("--prefill", options.prefill,
                    "Decoders: the engine that reads prompts at once; without it they are read a token at a time")
        ->type_name("ENGINE")
        ->needs(most);
    command.add_option("--eos", options.eos, "Decoders: the token that ends a text")->needs(most);
    command
        .add_option("--temperature", options.temperature,
                    "Decoders: draw tokens by the softmax of their scores divided by this; 0: take the likeliest")
        ->check(not_negative_number())
        ->needs(most);
    command.add_option("--top-tokens", options.top_tokens, "Decoders: draw from so many of the likeliest; 0: from all")
        ->needs(most);
    command.add_option("--seed", options.seed, "Decoders: of what is drawn; the same draws the same")->needs(most);
}

Result<void> run_generation(const std::filesystem::path& engine, const GenerateOptions& options,
                            const std::vector<std::string>& texts, const std::vector<int>& devices,
                            const Context& context) {
    EngineLoadOptions load;
    load.devices = devices;
    LATHE_TRY(const Engine decode, Engine::load(engine, load));
    std::string tokenizer = decode.info().tokenizer;
    std::optional<Generator::Prompting> prompting;
    if (!options.prefill.empty()) {
        LATHE_TRY(const Engine prefill, Engine::load(options.prefill, load));
        LATHE_TRY(Session session, prefill.make_session());
        if (tokenizer.empty()) tokenizer = prefill.info().tokenizer;
        prompting.emplace(Generator::Prompting{prefill.info(), std::move(session)});
    }
    LATHE_TRY(Session even, decode.make_session());
    LATHE_TRY(Session odd, decode.make_session());
    auto generator = Generator::make({decode.info(), std::move(even), std::move(odd)}, std::move(prompting));
    if (!generator) return std::move(generator).error().in(engine.string());
    LATHE_TRY(const std::vector<Prompt> prompts, prompts_of(options, texts, tokenizer, engine));
    std::shared_ptr<const Detokenizer> detokenizer;
    if (!tokenizer.empty()) {
        if (auto found = Detokenizer::of(tokenizer)) {
            detokenizer = *std::move(found);
        } else {
            context.print("token ids alone: " + found.error().describe());
        }
    }
    Json samples = Json::array();
    for (const Prompt& prompt : prompts) {
        std::vector<std::int64_t> made;
        const auto take = [&](std::int64_t token, bool) -> Result<void> {
            made.push_back(token);
            return {};
        };
        const auto check = [&] { return context.progress().check(); };
        LATHE_CHECK(generate(*generator, prompt.tokens, {options.max_tokens, options.eos},
                             {options.temperature, options.top_tokens, options.seed}, check, take));
        context.print(context.bold(prompt.name));
        context.print("  " + listed(prompt.tokens) + " | " + listed(made));
        Json sample{{"sample", prompt.name}, {"prompt", prompt.tokens}, {"tokens", made}};
        if (detokenizer != nullptr) {
            const std::string text = text_of(prompt.tokens, made, detokenizer);
            context.print("  " + text);
            sample["text"] = text;
        }
        samples.push_back(std::move(sample));
    }
    Json document{{"kind", "run"},
                  {"version", 1},
                  {"engine", engine.string()},
                  {"precision", to_string(decode.info().precision)},
                  {"samples", std::move(samples)},
                  {"output", ""}};
    context.print_json(std::move(document));
    return {};
}

} // namespace lathe::cli

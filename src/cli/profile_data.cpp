#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "lathe/lengths.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct ProfileDataOptions {
    ProfileDataRequest request;
    std::string output;
};

std::string join(const std::vector<std::size_t>& lengths, const char* separator) {
    std::string text;
    for (const std::size_t length : lengths)
        text += (text.empty() ? "" : separator) + std::to_string(length);
    return text;
}

std::string histogram(const std::map<std::size_t, std::size_t>& counts) {
    constexpr std::size_t bins = 12;
    constexpr std::size_t widest = 40;
    const std::size_t first = counts.begin()->first;
    const std::size_t width = (counts.rbegin()->first - first) / bins + 1;
    std::vector<std::size_t> sums((counts.rbegin()->first - first) / width + 1, 0);
    for (const auto& [length, samples] : counts)
        sums[(length - first) / width] += samples;
    const std::size_t most = *std::ranges::max_element(sums);
    std::vector<std::vector<std::string>> rows{{"tokens", "samples", ""}};
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::size_t low = first + i * width;
        rows.push_back({width == 1 ? std::to_string(low) : std::to_string(low) + ".." + std::to_string(low + width - 1),
                        std::to_string(sums[i]), std::string((sums[i] * widest + most - 1) / most, '#')});
    }
    return table(rows);
}

std::string proposals_table(const DataProfile& profile, std::size_t batch) {
    std::vector<std::vector<std::string>> rows{{"filled up to", "tokens computed", "padding", "padding / real", ""}};
    const auto add = [&](const std::string& name, const PaddingCost& cost, bool chosen) {
        rows.push_back({name, std::to_string(cost.computed_tokens), fixed(100 * cost.padding_share, 1) + " %",
                        fixed(cost.padding_over_real, 3), chosen ? "<" : ""});
    };
    add(batch == 1 ? "nothing" : "the batch's longest", profile.own, false);
    for (std::size_t i = 0; i < profile.proposals.size(); ++i)
        add(join(profile.proposals[i].lengths, ", "), profile.proposals[i].cost, i == profile.chosen);
    return table(rows);
}

void print_shapes(const Context& context, const LengthShapes& shapes, const std::string& chosen,
                  const std::string& data) {
    context.print(context.bold("One engine for every length"));
    context.print("lathe build MODEL " + shapes.dynamic + "\n");
    context.print(context.bold("CPU: the same, with a form of its own for each bucket"));
    context.print("lathe build MODEL " + shapes.dynamic + " --lengths " + chosen + "\n");
    context.print(context.bold("GPU: one engine, a profile a bucket"));
    std::string line = "lathe build MODEL --device cuda";
    for (const std::string& profile : shapes.profiles)
        line += " " + profile;
    context.print(line + "\n");
    context.print(context.bold("An engine of one length, for each bucket"));
    for (const std::string& shape : shapes.fixed)
        context.print("lathe build MODEL " + shape);
    context.print("\n" + context.bold("What each costs"));
    context.print("lathe bench ENGINE --lengths-from " + data + " --buckets own --buckets longest --buckets " + chosen);
}

void print_profile(const Context& context, const DataProfile& profile, const ProfileDataRequest& request) {
    const auto at = [&](int percent) { return std::to_string(profile.percentiles.at(percent)); };
    const std::string data = request.data.string();
    context.print(context.bold("Tokens a sample, " + std::to_string(profile.samples) + " samples of " + data));
    context.print(histogram(profile.histogram) + "\n");
    context.print("mean " + fixed(profile.mean, 1) + ", half up to " + at(50) + ", 90 % up to " + at(90) +
                  ", 95 % up to " + at(95) + ", 99 % up to " + at(99) + ", longest " + std::to_string(profile.longest) +
                  "\n");
    context.print(context.bold("Buckets with the least padding"));
    context.print(proposals_table(profile, request.batch_size) + "\n");
    if (!profile.shapes) {
        context.print("The model takes " + std::to_string(profile.limit) +
                      " tokens and no other number: nothing to build.");
        return;
    }
    print_shapes(context, *profile.shapes, join(profile.proposals[profile.chosen].lengths, ","), data);
}

Result<void> run(const ProfileDataOptions& options, const Context& context) {
    ProfileDataRequest request = options.request;
    request.command_line = context.command_line();
    request.progress = &context.progress();
    LATHE_TRY(const DataProfile profile, profile_data(request));
    LATHE_TRY(Json document, parse_json(profile.document, "profile-data"));
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    print_profile(context, profile, request);
    if (profile.longer_than_limit > 0) {
        context.warn(std::to_string(profile.longer_than_limit) + " samples have more than the " +
                     std::to_string(profile.limit) + " tokens that " + request.model.string() + " takes; it cuts them");
    }
    if (profile.at_tokenizer_limit > 0) {
        context.warn(std::to_string(profile.at_tokenizer_limit) + " samples fill the tokenizer's " +
                     std::to_string(profile.tokenizer_limit) + " tokens: all that are not just so long are cut");
    }
    if (!options.output.empty()) context.print("results: " + options.output);
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_profile_data(Commands& commands) {
    const auto options = std::make_shared<ProfileDataOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"profile-data",
         "How long a dataset's texts are for a model, the lengths to build engines for and what padding "
         "costs with each",
         {"lathe profile-data minilm.onnx --data texts.tsv",
          "lathe profile-data minilm.onnx --data sts.tsv --columns text=5,pair=6 --batch-size 8 --buckets 3",
          "lathe profile-data minilm.engine --data texts.tsv --json --output lengths.json"}},
        [options, &context] { return run(*options, context); });
    command.add_option("model", options->request.model, "ONNX file or engine with a tokenizer")
        ->type_name("MODEL_OR_ENGINE")
        ->required();
    command.add_option("--data", options->request.data, "Texts: .tsv, .csv, .jsonl or .txt")->required();
    command.add_option("--columns", options->request.columns, columns_help);
    command.add_option("--samples", options->request.samples, "Use that many samples, spread evenly (default: all)");
    command
        .add_option("--batch-size", options->request.batch_size,
                    "Samples a request, in the data's order; all become as long as the longest")
        ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
        ->capture_default_str();
    command.add_option("--buckets", options->request.buckets, "Propose shapes for that many lengths")
        ->check(CLI::Range(std::size_t{1}, most_length_buckets))
        ->capture_default_str();
    command.add_option("-o,--output", options->output, "Write the results as JSON");
}

} // namespace lathe::cli

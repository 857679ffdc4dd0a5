#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "data/checks.hpp"
#include "data/convert.hpp"
#include "support/hash.hpp"

namespace lathe {

namespace {

/// Where the channels of a tensor are: sample n, channel c, element i lies at n * sample + c * channel + i * step.
struct ChannelPlan {
    std::size_t channels = 1;
    std::size_t count = 0;
    std::size_t channel = 0;
    std::size_t step = 1;
    std::size_t sample = 0;
    bool image = false;
};

bool is_channel_count(std::int64_t dim) { return dim == 1 || dim == 3 || dim == 4; }

ChannelPlan plan_channels(const Shape& shape) {
    ChannelPlan plan;
    plan.sample = 1;
    for (std::size_t a = 1; a < shape.size(); ++a)
        plan.sample *= static_cast<std::size_t>(shape[a]);
    plan.count = plan.sample;
    if (shape.size() != 4 || plan.sample == 0) return plan;
    if (is_channel_count(shape[1])) {
        plan.channels = static_cast<std::size_t>(shape[1]);
        plan.count = plan.sample / plan.channels;
        plan.channel = plan.count;
        plan.image = true;
    } else if (is_channel_count(shape[3])) {
        plan.channels = static_cast<std::size_t>(shape[3]);
        plan.count = plan.sample / plan.channels;
        plan.channel = 1;
        plan.step = plan.channels;
        plan.image = true;
    }
    return plan;
}

/// The tensor as floats: its own bytes if it is float32, else converted into `buffer`. Empty if it has no numbers.
std::span<const float> as_floats(const HostTensor& tensor, std::vector<float>& buffer) {
    if (tensor.type == DataType::float32) return tensor.as<float>();
    const std::int64_t count = element_count(tensor.shape);
    buffer.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    const auto converted = convert_elements(tensor.type, tensor.bytes, DataType::float32,
                                            std::as_writable_bytes(std::span(buffer)), tensor.name);
    if (!converted) buffer.clear();
    return buffer;
}

/// Looks at one sample's values of an input.
void look(const ChannelPlan& plan, const float* values, SampleFacts& facts) {
    bool finite = true;
    bool constant = plan.image;
    std::vector<SampleFacts::Channel> channels(plan.channels);
    for (std::size_t c = 0; c < plan.channels; ++c) {
        const float* value = values + c * plan.channel;
        SampleFacts::Channel channel{static_cast<double>(plan.count), 0, 0, *value, *value};
        bool channel_finite = true;
        for (std::size_t i = 0; i < plan.count; ++i) {
            const float x = value[i * plan.step];
            channel_finite = channel_finite && std::isfinite(x);
            channel.min = std::min(channel.min, x);
            channel.max = std::max(channel.max, x);
            channel.sum += x;
            channel.squares += static_cast<double>(x) * x;
        }
        finite = finite && channel_finite;
        constant = constant && channel_finite && channel.min == channel.max;
        if (channel_finite) channels[c] = channel;
    }
    facts.nonfinite += finite ? 0 : 1;
    facts.constant += constant ? 1 : 0;
    if (plan.image) facts.images.push_back(std::move(channels));
}

} // namespace

std::vector<SampleFacts> facts_of(const Batch& batch) {
    std::vector<SampleFacts> facts(batch.size());
    for (std::size_t n = 0; n < facts.size(); ++n) {
        facts[n].name = batch.names[n];
        facts[n].label = n < batch.labels.size() ? batch.labels[n] : -1;
        facts[n].cut = n == 0 ? batch.cut : 0;
        facts[n].token_limit = batch.token_limit;
        Hasher hasher;
        for (const HostTensor& tensor : batch.inputs) {
            const std::size_t bytes = tensor.bytes.size() / batch.size();
            hasher.update(std::span(tensor.bytes).subspan(n * bytes, bytes));
        }
        facts[n].digest = hasher.hex();
    }
    for (const HostTensor& tensor : batch.inputs) {
        const ChannelPlan plan = plan_channels(tensor.shape);
        if (!is_floating(tensor.type) && !plan.image) continue; // token ids and masks have no value range to judge
        std::vector<float> buffer;
        const std::span<const float> values = as_floats(tensor, buffer);
        if (plan.sample == 0 || values.size() < facts.size() * plan.sample) continue;
        for (std::size_t n = 0; n < facts.size(); ++n)
            look(plan, values.data() + n * plan.sample, facts[n]);
    }
    return facts;
}

Json to_json(const std::vector<SampleFacts>& facts) {
    Json json = Json::array();
    for (const SampleFacts& sample : facts) {
        Json images = Json::array();
        for (const auto& image : sample.images) {
            Json channels = Json::array();
            for (const SampleFacts::Channel& channel : image)
                channels.push_back({channel.count, channel.sum, channel.squares, channel.min, channel.max});
            images.push_back(std::move(channels));
        }
        json.push_back({sample.name, sample.digest, sample.label, sample.nonfinite, sample.constant, sample.cut,
                        sample.token_limit, std::move(images)});
    }
    return json;
}

Result<std::vector<SampleFacts>> sample_facts_from_json(const Json& json, const std::string& where) {
    std::vector<SampleFacts> facts;
    const Error damaged{ErrorCode::corrupt, "what was seen of the samples is damaged", where, ""};
    try {
        for (const Json& row : json) {
            for (const std::size_t count : {3UL, 4UL, 5UL, 6UL})
                if (!row.at(count).is_number_unsigned()) return damaged;
            SampleFacts sample{row.at(0).get<std::string>(),  row.at(1).get<std::string>(),
                               row.at(2).get<std::int64_t>(), row.at(3).get<std::size_t>(),
                               row.at(4).get<std::size_t>(),  row.at(5).get<std::size_t>(),
                               row.at(6).get<std::size_t>(),  {}};
            // Each is a count of inputs; more would be told one by one.
            constexpr std::size_t most_inputs = 1 << 16;
            if (sample.nonfinite > most_inputs || sample.constant > most_inputs) return damaged;
            for (const Json& image : row.at(7)) {
                auto& channels = sample.images.emplace_back();
                for (const Json& channel : image)
                    channels.push_back({channel.at(0).get<double>(), channel.at(1).get<double>(),
                                        channel.at(2).get<double>(), channel.at(3).get<float>(),
                                        channel.at(4).get<float>()});
            }
            facts.push_back(std::move(sample));
        }
    } catch (const Json::exception&) {
        return damaged;
    }
    return facts;
}

} // namespace lathe

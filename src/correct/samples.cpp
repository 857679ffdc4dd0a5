#include "correct/samples.hpp"

#include <algorithm>

namespace lathe {

Result<KeptSamples> keep_samples(Dataset& dataset, std::size_t fit, std::size_t held_back, std::size_t batch_size,
                                 Progress& progress) {
    KeptSamples kept;
    const std::size_t batches = dataset.size() / batch_size;
    if (batches < 2) {
        return Error{ErrorCode::not_found,
                     "correcting needs at least " + std::to_string(2 * batch_size) +
                         " samples, half of them to judge on",
                     "--data", "give more data, or --effort 0"};
    }
    const std::size_t wanted = std::clamp<std::size_t>((fit + held_back) / batch_size, 2, batches);
    const std::size_t for_fit =
        std::clamp<std::size_t>(wanted * fit / std::max<std::size_t>(1, fit + held_back), 1, wanted - 1);
    dataset.rewind();
    progress.begin("read samples", wanted);
    std::size_t fitted = 0;
    for (std::size_t batch = 0, taken = 0; batch < batches && taken < wanted; ++batch) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(auto data, dataset.next(batch_size));
        if (!data) break;
        if (batch != taken * batches / wanted) continue; // spread over the data
        // Of every `wanted` batches `for_fit` are for fitting, evenly mixed with the others.
        const bool fits = (taken + 1) * for_fit / wanted > fitted;
        ++taken;
        if (fits) ++fitted;
        (fits ? kept.fit_count : kept.held_back_count) += data->size();
        for (HostTensor& input : data->inputs) {
            const std::string name = input.name;
            (fits ? kept.fit : kept.held_back)[name].push_back(std::move(input));
        }
        progress.advance();
    }
    progress.end();
    return kept;
}

Masks masks_of(const std::map<std::string, Batches>& samples) {
    Masks masks;
    const auto found = samples.find("attention_mask");
    if (found == samples.end()) return masks;
    for (const HostTensor& batch : found->second)
        masks.push_back(PositionMask::of(batch));
    if (std::ranges::none_of(masks, [](const auto& mask) { return mask.has_value(); })) masks.clear();
    return masks;
}

} // namespace lathe

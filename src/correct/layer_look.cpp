#include "correct/layer_look.hpp"

#include <numeric>

#include "support/thread_pool.hpp"

namespace lathe {

std::vector<float> gather_outputs(const Batches& values, const Positions& positions, std::size_t channels,
                                  std::size_t threads) {
    const std::size_t count = positions.at.size();
    std::vector<float> result(channels * count);
    ThreadPool(threads).for_each(channels, [&](std::size_t m) {
        for (std::size_t n = 0; n < count; ++n) {
            const Positions::Position& at = positions.at[n];
            const HostTensor& tensor = values[at.batch];
            const auto [height, width] = image_size(tensor.shape);
            const auto plane = static_cast<std::size_t>(height * width);
            const auto place = static_cast<std::size_t>(at.y * width + at.x);
            result[m * count + n] = tensor.as<float>()[(at.sample * channels + m) * plane + place];
        }
    });
    return result;
}

Result<std::vector<float>> outputs_of(const LinearLayer& form, const LayerLook& look, std::span<const float> weight,
                                      std::span<const float> bias, bool real, LayerProduct& product) {
    const std::size_t positions = look.rows.positions;
    LATHE_TRY(std::vector<float> outputs,
              product(form, real ? look.rows.real : look.rows.quantized, positions, weight));
    const std::vector<float>& other = real ? look.real_other : look.quantized_other;
    for (std::size_t m = 0; m < form.channels(); ++m) {
        for (std::size_t i = m * positions; i < (m + 1) * positions; ++i)
            outputs[i] += bias[m] + (other.empty() ? 0.0F : other[i]);
    }
    return outputs;
}

std::vector<double> bias_shifts(const LayerLook& look, std::span<const float> outputs, const Clamp& clamp,
                                std::size_t channels, std::size_t threads) {
    const std::size_t positions = look.rows.positions;
    std::vector<double> shifts(channels, 0.0);
    ThreadPool(threads).for_each(channels, [&](std::size_t m) {
        shifts[m] = bias_shift(std::span(look.wanted).subspan(m * positions, positions),
                               outputs.subspan(m * positions, positions), clamp);
    });
    return shifts;
}

double error_of(const LayerLook& look, std::span<const float> outputs, const Clamp& clamp,
                std::span<const double> shifts, std::size_t threads) {
    const std::size_t positions = look.rows.positions;
    std::vector<double> errors(shifts.size(), 0.0);
    ThreadPool(threads).for_each(shifts.size(), [&](std::size_t m) {
        errors[m] = clamped_error(std::span(look.wanted).subspan(m * positions, positions),
                                  outputs.subspan(m * positions, positions), clamp, shifts[m]);
    });
    return std::accumulate(errors.begin(), errors.end(), 0.0);
}

} // namespace lathe

#include "backends/tensorrt/refit.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/messages.hpp"

namespace lathe::tensorrt {

namespace {

/// ": a, b and 7 more", or "" where none is missing.
std::string missing_weights(nvinfer1::IRefitter& refitter) {
    const std::int32_t count = std::max(refitter.getMissingWeights(0, nullptr), 0);
    if (count == 0) return "";
    std::vector<const char*> names(static_cast<std::size_t>(count), nullptr);
    refitter.getMissingWeights(count, names.data());
    constexpr std::size_t most = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
        text += (i == 0 ? ": " : ", ") + std::string(names[i] == nullptr ? "one without a name" : names[i]);
    if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
    return text;
}

Error not_given_back(const std::string& what, const Capture& capture) {
    return {ErrorCode::unsupported,
            "the plan was stripped of its weights, and " + std::string(product_name) + " " + what + capture.because(),
            "--strip-weights", "build the engine without --strip-weights"};
}

} // namespace

bool lacks_weights(const Plan& plan, [[maybe_unused]] const nvinfer1::ICudaEngine& engine) {
    if (plan.options) return plan.options->strip_weights;
#if defined(TRT_MAJOR_RTX) || NV_TENSORRT_MAJOR > 10 || NV_TENSORRT_MINOR >= 16
    // -1 for a whole plan.
    return engine.getEngineStat(nvinfer1::EngineStat::kSTRIPPED_WEIGHTS_SIZE) > 0;
#else
    return false;
#endif
}

Result<void> give_weights_back(const Plan& plan, nvinfer1::ICudaEngine& engine) {
    if (plan.onnx.empty() && plan.graph_digest.empty()) {
        return Error{ErrorCode::unsupported,
                     "the plan was stripped of its weights by an earlier Lathe, which did not note the graph it was "
                     "built from",
                     "--strip-weights", "build the engine again"};
    }
    std::string read;
    if (plan.onnx.empty()) {
        LATHE_TRY(read, onnx_for_refit(plan, plan.graph, plan.precision));
    }
    const std::string& onnx = plan.onnx.empty() ? read : plan.onnx;
    const Capture capture;
    LATHE_TRY(const std::unique_ptr<nvinfer1::IRefitter> refitter, library().make_refitter(engine));
    LATHE_TRY(const std::unique_ptr<nvonnxparser::IParserRefitter> parser, library().make_onnx_refitter(*refitter));
    const bool taken = parser->refitFromBytes(onnx.data(), onnx.size());
    std::string reasons;
    for (std::int32_t i = 0; i < parser->getNbErrors(); ++i) {
        const char* text = parser->getError(i)->desc();
        reasons += (reasons.empty() ? ": " : "; ") + std::string(text == nullptr ? "" : text);
    }
    if (!taken) return not_given_back("did not take them from the graph" + reasons, capture);
    if (const std::string missing = missing_weights(*refitter); !missing.empty())
        return not_given_back("found no values for some" + missing, capture);
    if (!refitter->refitCudaEngine()) return not_given_back("could not put them back", capture);
    return {};
}

} // namespace lathe::tensorrt

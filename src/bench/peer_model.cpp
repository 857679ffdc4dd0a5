#include "bench/peer_model.hpp"

#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

namespace lathe {

Result<bool> is_quantized_model(const std::filesystem::path& file) {
    if (file.extension() == ".xml") {
        LATHE_TRY(const std::string text, read_text_file(file));
        return text.find("type=\"FakeQuantize\"") != std::string::npos;
    }
    LATHE_TRY(const Model model, load_onnx(file));
    return rounds_values(model.graph);
}

Result<void> PeerModel::offer(const Engine& engine) {
    const EngineInfo& info = engine.info();
    const auto hash = info.hashes.find("source");
    if (!info.source.empty()) origins_.push_back({info.source, hash == info.hashes.end() ? "" : hash->second});
    if (info.precision == Precision::float32 && !fp32_graph_) {
        LATHE_TRY(fp32_graph_, engine.model());
    }
    return {};
}

Result<void> PeerModel::choose(const std::filesystem::path& named, const std::filesystem::path& scratch) {
    if (!named.empty()) return take(named);
    for (const Origin& origin : origins_) {
        if (!std::filesystem::is_regular_file(origin.file)) continue;
        const auto hash = hash_file(origin.file);
        if (!origin.hash.empty() && (!hash || *hash != origin.hash)) continue;
        const auto quantized = is_quantized_model(origin.file);
        if (quantized && !*quantized) return take(origin.file);
    }
    if (!fp32_graph_) return {};
    const auto file = scratch / "model.onnx";
    LATHE_CHECK(save_onnx(*fp32_graph_, file));
    return take(file);
}

bool PeerModel::source_is_code() const {
    if (!source_ || !source_->is_object()) return false;
    const auto kind = source_->find("kind");
    return kind != source_->end() && *kind == "file";
}

Result<void> PeerModel::take(const std::filesystem::path& file) {
    LATHE_TRY(const Model model, load_onnx(file));
    file_ = file;
    if (const std::string* text = model.find_metadata("lathe.source")) {
        LATHE_TRY(source_, parse_json(*text, "metadata lathe.source"));
    }
    return {};
}

} // namespace lathe

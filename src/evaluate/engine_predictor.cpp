#include "evaluate/engine_predictor.hpp"

#include <algorithm>
#include <cstring>

#include "data/convert.hpp"
#include "data/picture_batch.hpp"

namespace lathe {

namespace {

/// Appends the first `count` of a tensor's values to `out` as float32.
Result<void> append_floats(const TensorView& view, std::size_t count, std::vector<float>& out) {
    const std::size_t from = out.size();
    out.resize(from + count);
    return convert_elements(view.type, view.bytes.first(byte_size(view.type, count)), DataType::float32,
                            std::as_writable_bytes(std::span(out).subspan(from)), view.name);
}

/// One output of all parts of a batch.
struct Gathered {
    std::vector<float> values;
    Shape shape;
};

/// Whether an output of `samples` samples has them on its second axis, as readers of text that give scores step by step
/// have (TxNxC, PyTorch's CTC): by its shape, and where that can be read both ways by what the engine declares (-1: the
/// sample's axis). It is given on as NxTxC.
bool samples_on_second_axis(const Shape& declared, const Shape& shape, std::size_t samples) {
    const auto count = static_cast<std::int64_t>(samples);
    if (shape.size() != 3 || shape[1] != count) return false;
    return shape[0] != count || (declared.size() == 3 && declared[0] >= 0 && declared[1] < 0);
}

/// TxNxC of float32 as NxTxC.
HostTensor samples_to_front(const HostTensor& steps) {
    const auto places = static_cast<std::size_t>(steps.shape[0]);
    const auto samples = static_cast<std::size_t>(steps.shape[1]);
    const std::size_t row = static_cast<std::size_t>(steps.shape[2]) * sizeof(float);
    HostTensor turned(steps.name, DataType::float32, {steps.shape[1], steps.shape[0], steps.shape[2]});
    for (std::size_t place = 0; place < places; ++place) {
        for (std::size_t sample = 0; sample < samples; ++sample) {
            std::memcpy(turned.bytes.data() + (sample * places + place) * row,
                        steps.bytes.data() + (place * samples + sample) * row, row);
        }
    }
    return turned;
}

class EnginePredictor final : public OutputsPredictor {
public:
    EnginePredictor(Session session, std::string name, std::string precision, std::vector<std::size_t> outputs,
                    std::int64_t least, std::int64_t most, std::optional<Preprocess> on_device, bool one_sample)
        : session_(std::move(session)), name_(std::move(name)), precision_(std::move(precision)),
          outputs_(std::move(outputs)), on_device_(on_device), least_(static_cast<std::size_t>(least)),
          most_(static_cast<std::size_t>(most)), one_sample_(one_sample) {}

    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }

    Result<HostTensor> predict(const Batch& batch) override {
        LATHE_TRY(auto all, predict_all(batch));
        return std::move(all.front());
    }

    Result<std::vector<HostTensor>> predict_all(const Batch& batch) override {
        if (one_sample_ && (batch.size() != 1 || least_ > 1)) {
            return Error{ErrorCode::unsupported,
                         "the outputs have no axis for the sample, and there are several samples", name_,
                         "build the engine for a batch of 1 (--shape)"};
        }
        std::vector<Gathered> gathered(outputs_.size());
        for (std::size_t start = 0; start < batch.size(); start += most_) {
            const std::size_t count = std::min(most_, batch.size() - start);
            LATHE_CHECK(predict_part(batch, start, count, gathered));
        }
        std::vector<HostTensor> outputs;
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const std::vector<float>& values = gathered[i].values;
            if (!one_sample_) gathered[i].shape[0] = static_cast<std::int64_t>(batch.size());
            HostTensor output(session_.outputs()[outputs_[i]].name, DataType::float32, gathered[i].shape);
            if (output.bytes.size() != values.size() * sizeof(float)) {
                return Error{ErrorCode::unsupported,
                             "the output's first axis is not the batch: " + to_string(gathered[i].shape), output.name,
                             "only outputs with one row of scores a sample can be evaluated"};
            }
            std::memcpy(output.bytes.data(), values.data(), output.bytes.size());
            outputs.push_back(std::move(output));
        }
        return outputs;
    }

private:
    /// The same for pictures: the device preprocesses them.
    Result<std::vector<TensorView>> run_pictures(const Batch& batch, std::size_t start, std::size_t count,
                                                 std::size_t size) {
        if (!on_device_) {
            return Error{ErrorCode::invalid_argument, "pictures came without preprocessing for the device", name_, ""};
        }
        LATHE_TRY(PictureBatch pictures, picture_batch(std::span(batch.pictures).subspan(start, count), *on_device_));
        pictures.pictures.resize(size, pictures.pictures.back());
        return session_.run_pictures(pictures);
    }

    Result<std::vector<TensorView>> run_inputs(const Batch& batch, std::size_t start, std::size_t count,
                                               std::size_t size) {
        std::vector<HostTensor> inputs;
        for (const HostTensor& whole : batch.inputs) {
            if (batch.is_whole(whole)) {
                inputs.push_back(whole);
                continue;
            }
            const std::size_t row = whole.bytes.size() / batch.size();
            Shape part = whole.shape;
            part[0] = static_cast<std::int64_t>(size);
            HostTensor tensor(whole.name, whole.type, part);
            std::memcpy(tensor.bytes.data(), whole.bytes.data() + start * row, count * row);
            for (std::size_t i = count; i < size; ++i)
                std::memcpy(tensor.bytes.data() + i * row, whole.bytes.data() + (start + count - 1) * row, row);
            inputs.push_back(std::move(tensor));
        }
        std::vector<TensorView> views;
        for (HostTensor& tensor : inputs)
            views.push_back(tensor.view());
        return session_.run(views);
    }

    /// Samples start .. start + count, topped up with copies of the last where the profile's least batch is larger.
    Result<void> predict_part(const Batch& batch, std::size_t start, std::size_t count,
                              std::vector<Gathered>& gathered) {
        const std::size_t size = std::max(count, least_);
        LATHE_TRY(const auto outputs, batch.pictures.empty() ? run_inputs(batch, start, count, size)
                                                             : run_pictures(batch, start, count, size));
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const TensorView& view = outputs.at(outputs_[i]);
            if (one_sample_) {
                LATHE_CHECK(
                    append_floats(view, static_cast<std::size_t>(element_count(view.shape)), gathered[i].values));
                gathered[i].shape = view.shape;
                continue;
            }
            const Shape& declared = session_.outputs()[outputs_[i]].range.opt;
            if (samples_on_second_axis(declared, view.shape, size)) {
                HostTensor steps(view.name, DataType::float32, view.shape);
                std::vector<float> values;
                LATHE_CHECK(append_floats(view, steps.bytes.size() / sizeof(float), values));
                std::memcpy(steps.bytes.data(), values.data(), steps.bytes.size());
                HostTensor rows = samples_to_front(steps);
                LATHE_CHECK(append_floats(rows.view(), values.size() / size * count, gathered[i].values));
                gathered[i].shape = rows.shape;
                continue;
            }
            if (view.shape.empty() || view.shape[0] != static_cast<std::int64_t>(size)) {
                return Error{ErrorCode::unsupported,
                             "the output " + to_string(view.shape) + " has no row for each of " + std::to_string(size) +
                                 " samples",
                             view.name, "only outputs with one row of scores a sample can be evaluated"};
            }
            const auto row = static_cast<std::size_t>(element_count(view.shape)) / size;
            LATHE_CHECK(append_floats(view, row * count, gathered[i].values));
            gathered[i].shape = view.shape;
        }
        return {};
    }

    Session session_;
    std::string name_;
    std::string precision_;
    std::vector<std::size_t> outputs_;
    std::optional<Preprocess> on_device_;
    std::size_t least_;
    std::size_t most_;
    bool one_sample_;
};

bool is_number(DataType type) { return is_floating(type) || type == DataType::int64 || type == DataType::int32; }

/// The position of an output; the first for an empty name.
Result<std::size_t> find_output(const EngineInfo& info, const std::string& name, const std::string& output,
                                OutputsHold hold) {
    std::size_t index = 0;
    if (!output.empty()) {
        while (index < info.outputs.size() && info.outputs[index].name != output)
            ++index;
    }
    if (index >= info.outputs.size()) {
        std::string known;
        for (const IoInfo& candidate : info.outputs)
            known += (known.empty() ? "" : ", ") + candidate.name;
        return Error{ErrorCode::not_found, "the engine has no output '" + output + "'", name, "it has " + known};
    }
    const DataType type = info.outputs[index].type;
    if (hold == OutputsHold::scores ? !is_floating(type) : !is_number(type)) {
        return Error{ErrorCode::unsupported,
                     "the output is " + to_string(info.outputs[index].type) + ", not scores in floating point",
                     info.outputs[index].name, "choose another output with --output-name"};
    }
    return index;
}

} // namespace

Result<std::unique_ptr<OutputsPredictor>> make_outputs_predictor(const Engine& engine, std::string name,
                                                                 const std::vector<std::string>& outputs,
                                                                 std::optional<Preprocess> on_device,
                                                                 OutputsHold hold) {
    const EngineInfo& info = engine.info();
    std::vector<std::size_t> indices;
    for (const std::string& output : outputs) {
        LATHE_TRY(const std::size_t index, find_output(info, name, output, hold));
        indices.push_back(index);
    }
    std::int64_t least = 1;
    std::int64_t most = std::int64_t{1} << 20;
    for (const IoInfo& input : info.inputs) {
        if (input.range.min.empty() || input.range.max.empty()) continue; // a number
        least = std::max(least, input.range.min[0]);
        most = std::min(most, input.range.max[0]);
    }
    if (least > most) least = most = 1; // inputs that share no batch: single samples with their states
    LATHE_TRY(Session session, engine.make_session());
    return std::unique_ptr<OutputsPredictor>(
        std::make_unique<EnginePredictor>(std::move(session), std::move(name), to_string(info.precision),
                                          std::move(indices), least, most, on_device, hold == OutputsHold::one_sample));
}

Result<std::unique_ptr<Predictor>> make_engine_predictor(const Engine& engine, std::string name,
                                                         const std::string& output,
                                                         std::optional<Preprocess> on_device) {
    LATHE_TRY(auto predictor, make_outputs_predictor(engine, std::move(name), {output}, on_device));
    return std::unique_ptr<Predictor>(std::move(predictor));
}

} // namespace lathe

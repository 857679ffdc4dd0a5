#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/calibrate.hpp"
#include "lathe/data.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/result.hpp"
#include "lathe/sample_span.hpp"

// Calibration on several machines. Histograms are integers over bins whose widths are powers of two, so parts add up to
// exactly what one machine finds, whatever the parts are.

namespace lathe {

/// What was seen of some of the samples, as it travels from one machine to another.
class LATHE_API CalibrationPart {
public:
    CalibrationPart(CalibrationPart&&) noexcept;
    CalibrationPart& operator=(CalibrationPart&&) noexcept;
    ~CalibrationPart();

    SampleSpan span() const;
    std::string text() const;
    /// Errors: parse_error, corrupt, unsupported. Any bytes are safe to read.
    static Result<CalibrationPart> parse(std::string_view text);

    /// For Lathe itself.
    struct Impl;
    explicit CalibrationPart(std::unique_ptr<Impl> impl);
    const Impl& impl() const { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

/// The end that runs the model: made ready once, for any number of parts.
class LATHE_API CalibrationWorker {
public:
    CalibrationWorker(CalibrationWorker&&) noexcept;
    CalibrationWorker& operator=(CalibrationWorker&&) noexcept;
    ~CalibrationWorker();

    /// `model` must outlive the worker. Of the options, those that decide what is read and how it is run: samples,
    /// until_settled, batch_size, threads, preprocess. Errors: as Calibration::run.
    static Result<CalibrationWorker> start(const Model& model, const CalibrationOptions& options);

    /// Runs the model on these samples of the data that SharedCalibration was started on: the same path, or arrays of
    /// the span's samples alone, in the order of SharedCalibration::samples. Errors: as Calibration::run; out_of_range
    /// where the data have no such samples.
    Result<CalibrationPart> run(Data data, SampleSpan span, Progress* progress = nullptr);

private:
    struct Impl;
    explicit CalibrationWorker(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// The end that deals out the samples and puts the parts together. The result is Calibration::run's to the bit,
/// findings and convergence too, and so is the file that it saves.
class LATHE_API SharedCalibration {
public:
    SharedCalibration(SharedCalibration&&) noexcept;
    SharedCalibration& operator=(SharedCalibration&&) noexcept;
    ~SharedCalibration();

    /// Looks at the data without running the model. Errors: as Calibration::run.
    static Result<SharedCalibration> start(const Model& model, Data data, const CalibrationOptions& options = {});

    /// Samples that are to be read now; in any number of parts that begin and end at multiples of `granularity`. All of
    /// them, or with until_settled those of a round. Nothing when the calibration can be finished.
    std::optional<SampleSpan> wanted() const;
    std::size_t granularity() const;
    /// Which samples of the data, counted from 0, are at the places of a span: with data in arrays a worker gets these.
    std::vector<std::size_t> samples(SampleSpan span) const;

    /// Errors: mismatch (of another model, other tensors), out_of_range (samples that are not wanted now), and
    /// invalid_argument where a sample was added before: none is counted twice.
    Result<void> add(CalibrationPart part);
    /// Once. Errors: invalid_argument while samples are wanted; not_found where the data hold none.
    Result<Calibration> finish();

private:
    struct Impl;
    explicit SharedCalibration(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace lathe

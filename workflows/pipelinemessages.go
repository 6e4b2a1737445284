package workflows

import (
	"encoding/json"

	"conclave/activities"
	"conclave/engine/pipeline"
)

// PipelineType is the workflow type of a run of a pipeline. Its queries, signals
// and updates have the names of a session's: state, timeline, say, pause, resume
// and retry.
const PipelineType = "Pipeline"

// Memo keys of a pipeline's workflow, beside those of a session's.
const (
	MemoPipeline = "pipeline_id"
	MemoStep     = "step"
)

// PipelineInput starts a run of a pipeline.
type PipelineInput struct {
	Request string `json:"request"`
	ID      string `json:"id,omitempty"` // default: the workflow ID

	// Pipeline names one that was registered on this machine's stack. Config is one
	// as JSON; it can name the worker's providers, never define them.
	Pipeline string          `json:"pipeline,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"`

	// Continued carries a run over continue-as-new; a client that sets it is refused.
	Continued *PipelineContinued `json:"continued,omitempty"`

	malformed string
}

// UnmarshalJSON never fails; what is wrong with the input is said by validate.
func (in *PipelineInput) UnmarshalJSON(data []byte) error {
	type plain PipelineInput
	if err := json.Unmarshal(data, (*plain)(in)); err != nil {
		*in = PipelineInput{malformed: err.Error()}
	}
	return nil
}

// PipelineContinued is what a run carries over continue-as-new. Nothing is running
// then.
type PipelineContinued struct {
	Core     *pipeline.State             `json:"core"`
	Prepared activities.PreparedPipeline `json:"prepared"`
	Recorded int                         `json:"recorded"` // number of the last event on record
	Traced   int                         `json:"traced"`   // entries of the trace on record
}

// PipelineState is the answer to StateQuery of a pipeline.
type PipelineState = activities.PipelineState

// PipelineResult is how a run ended.
type PipelineResult = activities.PipelineResult

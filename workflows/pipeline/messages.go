package pipeline

import (
	"encoding/json"
	"strings"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

// Type is the workflow type of a pipeline run. Its queries, signals and updates have the same names
// as those of a session: state, timeline, say, pause, resume and retry.
const Type = "Pipeline"

// MemoPipeline is a memo key in addition to those of drive.
const MemoPipeline = "pipeline_id"

// Input starts a run of a pipeline. With Resume alone it continues an ended run.
type Input struct {
	Request string `json:"request"`
	ID      string `json:"id,omitempty"` // default: the workflow ID

	// Pipeline is the name of a pipeline registered on the local stack; Config is a definition in
	// JSON, which can name the worker's providers but not define any.
	Pipeline string          `json:"pipeline,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"`

	artifact.Material

	// Resume continues the failed or cancelled run with this workflow ID.
	Resume bool `json:"resume,omitempty"`

	// Continued passes a run on to the next execution; validate refuses it from clients.
	Continued *acts.Saved `json:"continued,omitempty"`

	faults drive.Faults
}

// UnmarshalJSON never fails. validate reports faults.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	in.faults = drive.Decode(data, (*plain)(in))
	return nil
}

// validate returns an error for an input that cannot start a run.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.Continued != nil && !continued:
		return drive.Invalid("continued is reserved for the workflow: leave it out")
	case in.Resume && !continued:
		if in.Request != "" || in.Pipeline != "" || activities.Given(in.Config) || in.Given() {
			return drive.Invalid("resume goes on with the run as it was started: leave request, pipeline, config, base and context out")
		}
		if in.ID == "" { // the workflow's ID need not be that of a run
			return nil
		}
	case strings.TrimSpace(in.Request) == "":
		return drive.Invalid(`the input has no request: give {"request":"…","config":{…}}`)
	case len(in.Request) > drive.MaxInput:
		return drive.Invalid("the request has %d bytes, at most %d are accepted: give large material as a base or a context: `conclave upload DIR` stores one", len(in.Request), drive.MaxInput)
	case len(in.Config) > drive.MaxInput:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxInput)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return nil
}

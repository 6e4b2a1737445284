package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

func TestInput_validate(t *testing.T) {
	t.Parallel()
	config := json.RawMessage(`{"start":"main"}`)
	for name, tt := range map[string]struct {
		in        Input
		continued bool
		want      string // empty if the input is accepted
	}{
		"a config":              {in: Input{Request: "q", Config: config}},
		"a name":                {in: Input{Request: "q", Pipeline: "review"}},
		"no request":            {Input{Config: config}, false, `the input has no request: give {"request":"…","config":{…}}`},
		"a blank request":       {Input{Request: " \n"}, false, "the input has no request"},
		"the largest request":   {in: Input{Request: strings.Repeat("x", workflows.MaxInput)}},
		"a request too large":   {Input{Request: strings.Repeat("x", workflows.MaxInput+1)}, false, "the request has 262145 bytes, at most 262144 are accepted: give large material as a base or a context"},
		"the largest config":    {in: Input{Request: "q", Config: make(json.RawMessage, workflows.MaxInput)}},
		"a config too large":    {Input{Request: "q", Config: make(json.RawMessage, workflows.MaxInput+1)}, false, "the config has 262145 bytes"},
		"forged state":          {Input{Request: "q", Continued: &acts.Saved{}}, false, "continued is reserved for the workflow: leave it out"},
		"its own state":         {Input{Request: "q", Continued: &acts.Saved{}}, true, ""},
		"resume alone":          {in: Input{Resume: true}},
		"resume of a run":       {in: Input{Resume: true, ID: "p1"}},
		"resume of an odd run":  {Input{Resume: true, ID: "../p1"}, false, "../p1"},
		"resume and a request":  {Input{Resume: true, Request: "q"}, false, "resume goes on with the run as it was started: leave request, pipeline, config, inputs, base and context out"},
		"resume and a name":     {Input{Resume: true, Pipeline: "review"}, false, "resume goes on with the run"},
		"resume and a config":   {Input{Resume: true, Config: config}, false, "resume goes on with the run"},
		"resume and null":       {in: Input{Resume: true, Config: json.RawMessage("null")}},
		"resume and a base":     {Input{Resume: true, Material: artifact.Material{Base: "sha256:0"}}, false, "resume goes on with the run"},
		"resume and a context":  {Input{Resume: true, Material: artifact.Material{Context: []artifact.Context{{Name: "docs"}}}}, false, "resume goes on with the run"},
		"an ID that leaves":     {Input{Request: "q", ID: "../other"}, false, "../other"},
		"a handed-over request": {Input{Request: "", Continued: &acts.Saved{}}, true, "the input has no request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := tt.in.ID
			if id == "" {
				id = "p1"
			}
			err := tt.in.validate(id, tt.continued)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, workflows.InvalidInput, refused.Type())
			require.True(t, refused.NonRetryable())
		})
	}
}

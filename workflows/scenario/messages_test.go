package scenario

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/scenario"
	"conclave/workflows"
)

// accepted is an input that becomes a run.
func accepted() Input {
	return Input{
		RunID: "r1", PRD: "# Shop",
		Plan: scenario.Plan{
			Slug: "buy", Title: "Buy a thing",
			Steps:  []scenario.StepRef{{ID: "01", Title: "Open", File: "01-open.md"}, {ID: "02", Title: "Pay", File: "02-pay.md"}},
			Before: []scenario.StepRef{{ID: "10", Title: "Fill", File: "10-fill.md"}},
			After:  []scenario.StepRef{{ID: "20", Title: "Clean", File: "20-clean.md"}},
		},
		Files: map[string]string{"01-open.md": "Open it.", "02-pay.md": "Pay.", "10-fill.md": "Fill.", "20-clean.md": "Clean."},
	}
}

func TestInput_validate(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a", 32)
	for name, tt := range map[string]struct {
		change func(in *Input)
		want   string // empty if the input is accepted
	}{
		"as it is":                 {func(*Input) {}, ""},
		"the longest step":         {func(in *Input) { in.StepTimeoutSeconds = MaxStepSeconds }, ""},
		"a step too long":          {func(in *Input) { in.StepTimeoutSeconds = MaxStepSeconds + 1 }, "step_timeout_seconds is 86401; a step may take 1 to 86400 seconds"},
		"negative time":            {func(in *Input) { in.StepTimeoutSeconds = -1 }, "step_timeout_seconds is -1"},
		"the largest config":       {func(in *Input) { in.Config = make(json.RawMessage, workflows.MaxInput) }, ""},
		"a config too large":       {func(in *Input) { in.Config = make(json.RawMessage, workflows.MaxInput+1) }, "the config has 262145 bytes, at most 262144 are accepted"},
		"a negative number":        {func(in *Input) { in.After = -1 }, "after is -1; run numbers begin with 1"},
		"no run id":                {func(in *Input) { in.RunID = "" }, `"" is not a run id`},
		"a run id that leaves":     {func(in *Input) { in.RunID = "../r2" }, `"../r2" is not a run id`},
		"a plan without a slug":    {func(in *Input) { in.Plan.Slug = "" }, `"" is not a slug`},
		"prd.md twice":             {func(in *Input) { in.PRDHash = hash }, "prd and prd_sha256 exclude each other"},
		"prd.md by its hash":       {func(in *Input) { in.PRD, in.PRDHash = "", hash }, ""},
		"a hash in upper case":     {func(in *Input) { in.PRD, in.PRDHash = "", strings.ToUpper(hash) }, "64 digits of lower-case hex"},
		"a hash too short":         {func(in *Input) { in.PRD, in.PRDHash = "", hash[1:] }, "it takes the SHA-256 of prd.md"},
		"a file is missing":        {func(in *Input) { delete(in.Files, "02-pay.md") }, "files lacks 02-pay.md, the file of step 02"},
		"a file of before":         {func(in *Input) { delete(in.Files, "10-fill.md") }, "files lacks 10-fill.md, the file of step 10"},
		"a file of after":          {func(in *Input) { delete(in.Files, "20-clean.md") }, "files lacks 20-clean.md, the file of step 20"},
		"a blank file":             {func(in *Input) { in.Files["02-pay.md"] = " \n\t" }, "02-pay.md, the file of step 02, is empty: describe the step"},
		"a file of no step":        {func(in *Input) { in.Files["03-go.md"] = "Go." }, "files has 5 files for 4 steps: give those that the plan names"},
		"files and prd too large":  {func(in *Input) { in.PRD = strings.Repeat("x", MaxDefinition) }, "the files of the steps and prd.md have"},
		"titles count":             {func(in *Input) { in.PRD = ""; in.Plan.Steps[0].Title = strings.Repeat("x", MaxDefinition) }, "at most 524288 are accepted"},
		"a resumed run by its ID":  {func(in *Input) { *in = Input{Resume: true, RunID: "r1", Plan: scenario.Plan{Slug: "buy"}} }, ""},
		"a resumed run by default": {func(in *Input) { *in = Input{Resume: true} }, ""},
		"resume with a team":       {func(in *Input) { *in = Input{Resume: true, Team: "default", StepTimeoutSeconds: 60} }, ""},
		"resume without a run":     {func(in *Input) { *in = Input{Resume: true, Plan: scenario.Plan{Slug: "buy"}} }, "run_id is missing: with plan.slug it names the run to resume; leave both out"},
		"resume without a slug":    {func(in *Input) { *in = Input{Resume: true, RunID: "r1"} }, `"" is not a slug`},
		"resume of an odd run":     {func(in *Input) { *in = Input{Resume: true, RunID: "-r1", Plan: scenario.Plan{Slug: "buy"}} }, `"-r1" is not a run id`},
		"resume with steps":        {func(in *Input) { in.Resume, in.Files, in.PRD = true, nil, "" }, "a resumed run keeps its definition"},
		"resume with files":        {func(in *Input) { in.Resume, in.Plan.Steps, in.PRD = true, nil, "" }, "leave plan.steps, files, prd and prd_sha256 out"},
		"resume with a hash":       {func(in *Input) { *in = Input{Resume: true, PRDHash: hash} }, "a resumed run keeps its definition"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := accepted()
			tt.change(&in)
			err := in.validate(in.RunID)
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

// The definition may have MaxDefinition bytes and no more.
func TestInput_largestDefinition(t *testing.T) {
	t.Parallel()
	in := accepted()
	size := 0
	for _, s := range in.Plan.All() {
		size += len(in.Files[s.File]) + len(s.Title)
	}
	in.PRD = strings.Repeat("x", MaxDefinition-size)
	require.NoError(t, in.validate("r1"))
	in.PRD += "x"
	require.ErrorContains(t, in.validate("r1"), "have 524289 bytes, at most 524288 are accepted")
}

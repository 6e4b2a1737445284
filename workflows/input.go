package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
)

// Limits of an input, in bytes. What is accepted is in the history twice, and a
// payload of 2 MB would hang the workflow.
const (
	MaxQuery  = 256 << 10 // query and history together
	MaxConfig = 256 << 10 // config and evaluation criteria, each
)

// CompletedByHand is the type of the failure of a step whose activity somebody
// completed with a result of their own.
const CompletedByHand = "CompletedByHand"

// InvalidInput is the type of the error that fails a session at once.
const InvalidInput = "InvalidInput"

// validate refuses an input that cannot become a session. id is its session ID;
// continued says that this run was started by the one before it.
func (in SessionInput) validate(id string, continued bool) error {
	switch {
	case in.malformed != "":
		return refuse(`the input is no session: %s; give an object like {"query":"…"}`, in.malformed)
	case in.Continued != nil && !continued:
		return refuse("continued is the workflow's own: leave it out")
	case strings.TrimSpace(in.Query) == "":
		return refuse(`the input has no query: give {"query":"…"}`)
	case len(in.History) > 0 && string(in.History) != "null":
		return refuse("history is not available in this version: put what matters into the query")
	case len(in.Query) > MaxQuery:
		return refuse("the query has %d bytes, at most %d are accepted: put large material where the agents can read it", len(in.Query), MaxQuery)
	case len(in.Config) > MaxConfig:
		return refuse("the config has %d bytes, at most %d are accepted", len(in.Config), MaxConfig)
	case len(in.EvalCriteria) > MaxConfig:
		return refuse("the eval_criteria have %d bytes, at most %d are accepted", len(in.EvalCriteria), MaxConfig)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return refuse("%s", err.Error())
	}
	return nil
}

func refuse(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), InvalidInput, nil)
}

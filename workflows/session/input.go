package session

import (
	"strings"

	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

// validate refuses an input that cannot become a session. id is its session ID;
// continued says that this run was started by the one before it.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.malformed != "":
		return drive.Invalid(`the input is no session: %s; give an object like {"query":"…"}`, in.malformed)
	case in.Continued != nil && !continued:
		return drive.Invalid("continued is the workflow's own: leave it out")
	case strings.TrimSpace(in.Query) == "":
		return drive.Invalid(`the input has no query: give {"query":"…"}`)
	case len(in.History) > 0 && string(in.History) != "null":
		return drive.Invalid("history is not available in this version: put what matters into the query")
	case len(in.Query) > drive.MaxQuery:
		return drive.Invalid("the query has %d bytes, at most %d are accepted: put large material where the agents can read it", len(in.Query), drive.MaxQuery)
	case len(in.Config) > drive.MaxConfig:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxConfig)
	case len(in.EvalCriteria) > drive.MaxConfig:
		return drive.Invalid("the eval_criteria have %d bytes, at most %d are accepted", len(in.EvalCriteria), drive.MaxConfig)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return nil
}

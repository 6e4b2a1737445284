package loop

import "conclave/engine/llm"

// Outcome describes how an ordinary tool call ended.
type Outcome struct {
	Call     string `json:"call"` // ID of the call
	Failed   bool   `json:"failed,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
}

// notCalled is the result of a call that StopAtFailure skipped.
const notCalled = "[not called: an earlier call failed]"

// outcomes lists the calls that failed or had an exit code, in order.
func outcomes(calls []llm.ToolCall, outputs map[string]Output) []Outcome {
	var ended []Outcome
	for _, call := range calls {
		if out := outputs[call.ID]; out.Failed || out.ExitCode != nil {
			ended = append(ended, Outcome{Call: call.ID, Failed: out.Failed, ExitCode: out.ExitCode})
		}
	}
	return ended
}

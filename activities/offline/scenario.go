package offline

import (
	"strings"

	"conclave/engine/llm"
)

// inspect plays the step of a scenario: it records a note as evidence and reports
// pass, or fail if a line of the step says "offline: fail". Both say that nothing
// was tested.
func (m *Model) inspect(req llm.Request, v view) []llm.ToolCall {
	var calls []llm.ToolCall
	if v.offers("record_evidence") {
		calls = append(calls, call("record_evidence", map[string]string{
			"name": "after", "type": "stdout", "data": markForm(m.mark) + ": nothing was tested.\n",
		}))
	}
	const untested = "The offline model reports by a fixed rule: nothing was tested."
	report := `{"status":"pass","evidence_paths":[],"error":null,"summary":"` + untested + `"}`
	if toldToFail(req) {
		report = `{"status":"fail","evidence_paths":[],"error":"the step says that the offline model is to fail","summary":"` + untested + `"}`
	}
	return append(calls, llm.ToolCall{Name: "report_result", Arguments: report})
}

// toldToFail reports whether a line of what the step was told says so.
func toldToFail(req llm.Request) bool {
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		for line := range strings.Lines(message.Content) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), errandMark); ok && strings.TrimSpace(rest) == "fail" {
				return true
			}
		}
	}
	return false
}

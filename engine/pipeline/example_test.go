package pipeline_test

import (
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// A writer calls a linter, continues with its result, and hands over to the export.
func Example() {
	state := pipeline.New(pipeline.Graph{
		Start: "write", MaxTransitions: 100, MaxDepth: 8,
		Steps: []pipeline.Node{
			{Name: "write", Kind: pipeline.Agent, Destinations: []string{"lint"}, Next: []pipeline.Branch{{To: "export"}}, MaxIterations: 50},
			{Name: "lint", Kind: pipeline.Agent, MaxIterations: 50},
			{Name: "export", Kind: pipeline.Agent, MaxIterations: 50},
		},
	})
	// The driver executes each launch and reports its end.
	ends := []pipeline.Ended{
		{Status: pipeline.CallPending, Action: pipeline.Call, To: "lint", Messages: "sha256 of the conversation", Iterations: 1},
		{Status: pipeline.Completed, Said: true, Text: "two issues", Iterations: 1},
		{Status: pipeline.Completed, Said: true, Text: "mended", Iterations: 2},
		{Status: pipeline.Completed, Said: true, Text: "shipped", Iterations: 1},
	}
	for !state.Done() {
		for _, command := range state.Drain() {
			launch, ok := command.(pipeline.Launch)
			if !ok {
				continue
			}
			end := ends[launch.After]
			end.Launch, end.Number, end.Usage = launch.ID, launch.After+1, llm.Usage{ModelCalls: 1}
			state.Step(end)
		}
	}
	for _, entry := range state.Timeline() {
		fmt.Println(entry.Text)
	}
	fmt.Println(state.Result.Status, "after", state.Usage.ModelCalls, "model calls")
	// Output:
	// write begins
	// write called lint
	// lint begins
	// lint ended: completed
	// write continues after lint
	// write ended: completed
	// export begins
	// export ended: completed
	// ended: completed
	// completed after 4 model calls
}

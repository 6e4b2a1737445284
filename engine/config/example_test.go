package config_test

import (
	"fmt"

	"conclave/engine/config"
)

func ExampleParse() {
	team, err := config.Parse("team.yaml", []byte(`
agents:
  - {id: agent_a, backend: {model: gpt-5.2}}
  - {id: agent_b, backend: {type: offline}, tools: {shell: true}}
orchestrator:
  max_revotes: 2
`), config.Local)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, _ := team.Agent("agent_b")
	fmt.Println(b.Backend.Type, b.Tools.Files, b.Tools.Shell)
	fmt.Println(team.Orchestrator.MaxRevotes, team.Orchestrator.MaxStepsPerAgent)
	// Output:
	// offline true true
	// 2 12
}

func ExampleParse_problems() {
	_, err := config.Parse("team.yaml", []byte(`
agents:
  - id: agent_a
    backend: {model_name: gpt-5.2}
orchestrator:
  pacing: round
`), config.Local)
	fmt.Println(err)
	// Output:
	// team.yaml:4:14: agents[0].backend.model: missing; name the model as the server knows it, such as gpt-5.2
	// team.yaml:4:15: agents[0].backend.model_name: unknown key; did you mean model?
	// team.yaml:6:11: orchestrator.pacing: unknown value "round"; did you mean rounds? valid: rounds, continuous
}

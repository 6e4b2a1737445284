package coordination_test

import (
	"fmt"

	"conclave/engine/coordination"
)

// Three agents reach a consensus in three rounds: a better answer by agent_c makes the first two
// votes stale.
func Example_threeRounds() {
	state := coordination.New(coordination.Config{Agents: []string{"agent_a", "agent_b", "agent_c"}})
	rounds := []map[string]string{
		{"agent_a": "answer", "agent_b": "answer", "agent_c": "answer"},
		{"agent_a": "agent_b", "agent_b": "agent_b", "agent_c": "answer"},
		{"agent_a": "agent_c", "agent_b": "agent_c", "agent_c": "agent_c"},
	}
	for _, actions := range rounds {
		for _, command := range state.Drain() {
			l, ok := command.(coordination.Launch)
			if !ok {
				continue
			}
			var seen []coordination.Seen
			for _, shown := range l.Shown {
				seen = append(seen, coordination.Seen{Agent: shown.Agent, Step: shown.Step})
			}
			end := coordination.End{Launch: l.ID, Step: l.After + 1}
			if target := actions[l.Agent]; target == "answer" {
				state.Step(coordination.Answered{End: end, Seen: seen})
			} else {
				state.Step(coordination.Voted{End: end, Choice: coordination.Choice{Target: target}, Seen: seen})
			}
		}
	}
	state.Drain()
	for _, entry := range state.Timeline() {
		fmt.Println(entry.Text)
	}
	// Output:
	// round 1: 3 launched
	// agent_a answered agent1.1
	// agent_b answered agent2.1
	// agent_c answered agent3.1
	// round 2: 3 launched
	// agent_a voted for agent_b (agent2.1)
	// agent_b voted for agent_b (agent2.1)
	// agent_c answered agent3.2; the votes of agent_a and agent_b are stale now
	// round 3: 3 launched
	// agent_a voted for agent_c (agent3.2)
	// agent_b voted for agent_c (agent3.2)
	// agent_c voted for agent_c (agent3.2)
	// consensus: agent_c (agent3.2)
}

package coordination

import (
	"testing"
)

// BenchmarkSession plays the largest team for three rounds: answers, split votes, and votes again.
func BenchmarkSession(b *testing.B) {
	config := Config{OnSplit: splitRevote, MaxRevotes: 1, MaxStepsPerAgent: 12}
	for letter := range 26 {
		config.Agents = append(config.Agents, "agent_"+string(rune('a'+letter)))
	}
	b.ReportAllocs()
	for b.Loop() {
		p := start(config)
		for range 3 {
			for i, id := range config.Agents {
				if p.state.Round == 1 {
					p.step(p.answer(id))
					continue
				}
				p.step(p.vote(id, config.Agents[(i+p.state.Round)%26]))
			}
			p.drain()
		}
		if !p.state.Done() {
			b.Fatal("the session has not ended")
		}
	}
}

// BenchmarkDrain drains after one more answer by the largest team with continuous pacing. The bell
// tells running agents about it, and agents that waited for news are launched.
func BenchmarkDrain(b *testing.B) {
	config := Config{Pacing: "continuous", Updates: Inject, MaxStepsPerAgent: 1 << 30}
	for letter := range 26 {
		config.Agents = append(config.Agents, "agent_"+string(rune('a'+letter)))
	}
	p := start(config)
	for _, id := range config.Agents {
		p.batch(p.answer(id))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		running := config.Agents[i%26]
		if len(p.batch(p.answer(running))) < 2 {
			b.Fatal("an answer without a ring or a launch")
		}
	}
}

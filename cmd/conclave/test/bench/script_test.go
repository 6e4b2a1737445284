//go:build bench

package bench

import (
	"sync"
	"time"
)

// script is the replies of the models, by name, in one session. It repeats for session
// after session.
type script map[string][]call

// threeRounds is the session of the protocol's example: nine steps in three waves of
// all three agents.
var threeRounds = script{
	"model-a": {write("plan.md", "# Plan A\n"), answer("Answer A."), vote("agent2"), vote("agent3")},
	"model-b": {answer("Answer B."), vote("agent2"), vote("agent3")},
	"model-c": {answer("Answer C."), answer("Answer C, improved."), vote("agent3")},
}

const (
	steps = 9 // of threeRounds
	waves = 3
	// callsInARow is the number of sequential model calls of threeRounds.
	callsInARow = 4
)

// alone is the shortest session: one agent answers and votes for itself.
var alone = script{"model-a": {answer("Answer A."), vote("agent1")}}

// minds replay the script, with the same delay before every reply.
func (s script) minds(delay time.Duration) minds {
	all := minds{}
	for model, replies := range s {
		var mu sync.Mutex
		said := 0
		all[model] = func(request) (call, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			said++
			return replies[(said-1)%len(replies)], delay
		}
	}
	return all
}

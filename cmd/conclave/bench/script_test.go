//go:build bench

package bench

import (
	"sync"
	"time"
)

// script is what the model of each name replies in one session. It is
// played again and again, for sessions one after the other.
type script map[string][]call

// threeRounds is the session of the protocol's example: nine steps, and in each
// of its three waves every agent has one.
var threeRounds = script{
	"model-a": {write("plan.md", "# Plan A\n"), answer("Answer A."), vote("agent2"), vote("agent3")},
	"model-b": {answer("Answer B."), vote("agent2"), vote("agent3")},
	"model-c": {answer("Answer C."), answer("Answer C, improved."), vote("agent3")},
}

const (
	steps = 9 // of threeRounds
	waves = 3
	// callsInARow is how many model calls of threeRounds wait for one another.
	callsInARow = 4
)

// alone is the shortest session: one agent answers and votes for itself.
var alone = script{"model-a": {answer("Answer A."), vote("agent1")}}

// minds play the script, with the same delay before every reply.
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

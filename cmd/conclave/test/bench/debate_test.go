//go:build bench

package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// debate is a team of three models of different speed whose replies depend on the
// prompt, so that the team decides with any pacing.
func debate() minds {
	// The delays are uneven, so that an answer of one model arrives between two calls
	// of another.
	return minds{
		"model-a": debater{number: 1, delay: 600 * time.Millisecond}.think,
		"model-b": debater{number: 2, delay: 1300 * time.Millisecond}.think,
		"model-c": debater{number: 3, delay: 350 * time.Millisecond, improves: true}.think,
	}
}

// debater lists files first in every step. Then it answers if it has no answer. The improving
// debater improves its answer once when it sees another. Otherwise a debater votes for the newest
// answer of agent 3, or else of any agent.
type debater struct {
	number   int // of its agent
	delay    time.Duration
	improves bool
}

func (d debater) think(r request) (call, time.Duration) { return d.reply(r), d.delay }

func (d debater) reply(r request) call {
	shown := answersIn(r)
	own := shown[d.number]
	switch {
	case len(r.said("tool")) == 0:
		return call{"list_files", map[string]string{}}
	case own == 0, d.improves && own == 1 && len(shown) > 1:
		return answer(fmt.Sprintf("Answer of %d, revision %d.", d.number, own+1))
	}
	for _, number := range []int{3, 2, 1} {
		if revision := shown[number]; revision > 0 {
			return vote(fmt.Sprintf("agent%d.%d", number, revision))
		}
	}
	return answer("Nothing is shown.")
}

// beginning is the line before an answer's text.
var beginning = regexp.MustCompile(`(?m)^=== \w+ begin agent(\d+)\.(\d+) ===$`)

// answersIn are the newest answers in a request, by agent.
func answersIn(r request) map[int]int {
	shown := map[int]int{}
	for _, text := range r.said("user") {
		for _, found := range beginning.FindAllStringSubmatch(text, -1) {
			number, _ := strconv.Atoi(found[1])
			revision, _ := strconv.Atoi(found[2])
			shown[number] = max(shown[number], revision)
		}
	}
	return shown
}

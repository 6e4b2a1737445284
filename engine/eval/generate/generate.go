package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"conclave/engine/eval"
)

// Options choose the questions.
type Options struct {
	Seed  uint64
	Count int
	Kinds []string // kinds of questions, made in turn
}

// maxCount bounds the questions of one data set.
const maxCount = 10_000

// kinds are the makers of questions by kind.
var kinds = []struct {
	name string
	make func(*rand.Rand) eval.Question
}{{"arithmetic", arithmetic}, {"choice", choice}, {"strings", words}, {"code", code}}

// Kinds returns the names of the kinds of questions.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Questions returns a data set. Equal options give equal bytes, and a larger count only
// appends questions.
func Questions(o Options) ([]byte, error) {
	if o.Count < 1 || o.Count > maxCount {
		return nil, fmt.Errorf("%d questions; give a number from 1 to %d", o.Count, maxCount)
	}
	if len(o.Kinds) == 0 {
		return nil, fmt.Errorf("no kind of questions is given; choose from %s", strings.Join(Kinds(), ", "))
	}
	for _, name := range o.Kinds {
		if !slices.Contains(Kinds(), name) {
			return nil, fmt.Errorf("there is no kind of questions %q; choose from %s", name, strings.Join(Kinds(), ", "))
		}
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	seen := map[string]bool{}
	for i := range o.Count {
		kind := slices.Index(Kinds(), o.Kinds[i%len(o.Kinds)])
		var q eval.Question
		for try := uint64(0); ; try++ {
			chance := rand.New(rand.NewPCG(o.Seed, uint64(i)<<16|try)) //nolint:gosec // the same seed gives the same questions
			if q = kinds[kind].make(chance); !seen[q.Input] || try > 100 {
				break
			}
		}
		seen[q.Input] = true
		q.ID = fmt.Sprintf("%s-%03d", kinds[kind].name, i+1)
		q.Metadata = fmt.Appendf(nil, `{"kind":%q,"seed":%d}`, kinds[kind].name, o.Seed)
		if err := lines.Encode(q); err != nil {
			return nil, fmt.Errorf("encode a question: %w", err)
		}
	}
	return out.Bytes(), nil
}

func between(chance *rand.Rand, low, high int) int { return low + chance.IntN(high-low+1) }

func one[T any](chance *rand.Rand, of ...T) T { return of[chance.IntN(len(of))] }

func number(n int) eval.Targets { return eval.Targets{fmt.Sprint(n)} }

package worth_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// With skills measured on 1,000 questions, the order of the file is worth at most 0.3 points on the others. A
// second implementation finds the same accuracies.
func TestSkill_orderDecidesLess(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(4, 39))
	all := chance.Perm(questions)
	if _, everything := kept(); !everything {
		all = all[:4000]
	}
	sample, rest := readLetters(t, all[:1000]), readLetters(t, all[1000:])
	best := strongest(t, sample)
	teams := [][]string{best[:3], best[3:6], best[:4], {best[0], best[5], best[12]}, {best[8], best[20], best[3], best[14]}, best[:7]}
	lines := runScript(t, map[string]any{"data": letters, "skilled": teams, "sample": all[:1000], "rest": all[1000:]})
	require.Len(t, lines, len(teams))
	judge := replayer(rest)
	var rows [][]string
	for i, members := range teams {
		without := judge.Replay(lineup(t, rest, own, members...))
		l := lineup(t, rest, own, members...)
		for i, m := range replayer(sample).Replay(lineup(t, sample, own, members...)).Members {
			l.Seats[i].Skill = &m.Accuracy
		}
		with := judge.Replay(l)
		t.Logf("%v: without skill %.4f to %.4f, with it %.4f to %.4f", members, without.Order.Worst, without.Order.Best, with.Order.Worst, with.Order.Best)
		require.LessOrEqual(t, with.Order.Best-with.Order.Worst, 0.003)
		require.GreaterOrEqual(t, with.Team.Accuracy, without.Order.Best-0.01)
		var second struct{ Without, With []float64 }
		require.NoError(t, json.Unmarshal(lines[i], &second))
		require.InDelta(t, second.Without[0], without.Order.Worst, 6e-5, "%v", members)
		require.InDelta(t, second.Without[1], without.Order.Best, 6e-5, "%v", members)
		require.InDelta(t, second.With[0], with.Order.Worst, 6e-5, "%v", members)
		require.InDelta(t, second.With[1], with.Order.Best, 6e-5, "%v", members)
		rows = append(rows, []string{strings.Join(members, ", "), fmt.Sprintf("%.3f to %.3f", without.Order.Worst, without.Order.Best), fmt.Sprintf("%.3f to %.3f", with.Order.Worst, with.Order.Best)})
	}
	keepTable(t, "skill", []string{"team", "by order, without skill", "with it"}, rows)
}

// promised is a promise on drawn questions: the least score in hundredths, nil if the promise is refused, on how
// many of the other questions the team acts, and how many of these it decides wrongly.
type promised struct {
	least        *int
	acted, wrong int
}

func promiseFrom(decisions []coordination.Judged, order []int, drawn int, wrong float64) (p promised) {
	var sample []coordination.Judged
	for _, i := range order[:drawn] {
		sample = append(sample, decisions[i])
	}
	threshold, err := coordination.Calibrate(sample).Promise(wrong)
	if err != nil {
		return p
	}
	p.least = new(int(100*threshold.Least + 0.5))
	admitted := map[*coordination.Support]bool{nil: threshold.Admits(nil)} // equal decisions share theirs
	for _, i := range order[drawn:] {
		admits, known := admitted[decisions[i].Support]
		if !known {
			admits = threshold.Admits(decisions[i].Support)
			admitted[decisions[i].Support] = admits
		}
		if admits {
			p.acted++
			if !decisions[i].Right {
				p.wrong++
			}
		}
	}
	return p
}

// requirePromised compares promises with those of a second implementation.
func requirePromised(t testing.TB, line []byte, got []promised) {
	t.Helper()
	var lines [][3]*int
	require.NoError(t, json.Unmarshal(line, &lines))
	require.NotEmpty(t, lines)
	for i, second := range lines {
		require.Equal(t, promised{second[0], *second[1], *second[2]}, got[i], i)
	}
}

// draw draws questions without putting any back, n times: the first ones of each order are the drawn ones.
func draw(seed, n int) (orders [][]int) {
	chance := rand.New(rand.NewPCG(uint64(seed), 39))
	for range n {
		orders = append(orders, chance.Perm(questions))
	}
	return orders
}

// A promise that is made from drawn questions is broken on the rest in at most 5 % of the drawings, plus 3
// points of chance. A second implementation makes the same promises, from all drawings with `make recorded`.
func TestPromise_onRecordedAnswers(t *testing.T) {
	t.Parallel()
	r := readLetters(t, nil)
	best := strongest(t, r)
	draws, sizes, compared := 200, []int{1500}, 20
	if _, all := kept(); all {
		sizes, compared = []int{400, 1500}, draws
	}
	orders, drawn := map[int][][]int{}, map[string][][]int{}
	for _, n := range sizes {
		orders[n] = draw(n, draws)
		for _, order := range orders[n][:compared] {
			drawn[fmt.Sprint(n)] = append(drawn[fmt.Sprint(n)], slices.Clone(order[:n]))
		}
	}
	type asked struct {
		Members []string `json:"members"`
		Wrong   float64  `json:"wrong"`
		Draws   string   `json:"draws"`
	}
	var rows [][]string
	var script []asked
	var made [][]promised
	for _, c := range []struct {
		name    string
		members []string
		wrong   float64
		refused bool // the promise cannot be kept, and is nearly always refused
	}{
		{"three", best[:3], 0.10, true},
		{"three", best[:3], 0.13, false},
		{"three", best[:3], 0.25, false},
		{"five", best[:5], 0.15, false},
		{"nine", best[:9], 0.10, false},
		{"nine", best[:9], 0.15, false},
	} {
		decisions := replayer(r).Judge(lineup(t, r, own, c.members...))
		for _, n := range sizes {
			var kept, broken, acted rate
			var each []promised
			for _, order := range orders[n] {
				p := promiseFrom(decisions, order, n, c.wrong)
				each = append(each, p)
				kept.add(p.least != nil)
				if p.least != nil {
					acted.of, acted.n = acted.of+p.acted, acted.n+questions-n
				}
				broken.add(float64(p.wrong) > c.wrong*float64(p.acted))
			}
			script, made = append(script, asked{c.members, c.wrong, fmt.Sprint(n)}), append(made, each)
			t.Logf("%s, wrong: %g, from %d questions: promised in %.3f of the drawings, acts on %.3f, broken in %.3f", c.name, c.wrong, n, kept.share(), acted.share(), broken.share())
			require.LessOrEqual(t, broken.share(), 0.08, "%s %g %d", c.name, c.wrong, n)
			if c.refused {
				require.LessOrEqual(t, kept.share(), 0.08, "%s %g %d", c.name, c.wrong, n)
			}
			rows = append(rows, []string{"the best " + c.name, fmt.Sprint(c.wrong), fmt.Sprint(n), fmt.Sprintf("%.1f %%", 100*kept.share()), fmt.Sprintf("%.1f %%", 100*acted.share()), fmt.Sprintf("%.1f %%", 100*broken.share())})
		}
	}
	lines := runScript(t, map[string]any{"data": letters, "promises": script, "draws": drawn})
	require.Len(t, lines, len(made))
	for i, line := range lines {
		requirePromised(t, line, made[i])
	}
	keepTable(t, "promises", []string{"team", "`wrong`", "questions", "promised, of 200 drawings", "then acts on", "broken"}, rows)
}

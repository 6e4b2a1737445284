package worth_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/eval"
)

// worthPage is the page of the figures, docs what it is made from.
const (
	worthPage = "../../../../docs/worth.md"
	outcomes  = "../../../../docs/worth/"
)

// table is a table of the page.
type table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// keepTable writes a table of a complete measurement, of which the page is made.
func keepTable(t testing.TB, name string, columns []string, rows [][]string) {
	t.Helper()
	if _, all := kept(); !all {
		return
	}
	data, err := json.MarshalIndent(table{columns, rows}, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(outcomes+"recorded", 0o755))
	require.NoError(t, os.WriteFile(outcomes+"recorded/"+name+".json", append(data, '\n'), 0o644))
}

// The page has the tables of docs/worth: those of the recorded answers, which `make recorded` measures, and
// those of the evaluations of `make worth`. CONCLAVE_WRITE writes it.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("testdata/page.md")
	require.NoError(t, err)
	text := string(page)
	for _, name := range []string{"teams", "spread", "settings", "refusals", "advice", "skill", "promises", "programs"} {
		text = strings.Replace(text, "{{"+name+"}}\n", readTable(t, name), 1)
	}
	dir := cmp.Or(os.Getenv("WORTH_DIR"), outcomes)
	text = strings.Replace(text, "{{model}}", cmp.Or(os.Getenv("WORTH_MODEL"), "Qwen2.5-Coder-0.5B-Instruct (Q4_0)"), 1)
	text = strings.Replace(text, "{{evaluations}}\n", evaluations(t, dir), 1)
	require.NotContains(t, text, "{{")
	if os.Getenv("CONCLAVE_WRITE") != "" {
		require.NoError(t, os.WriteFile(worthPage, []byte(text), 0o644))
	}
	written, err := os.ReadFile(worthPage)
	require.NoError(t, err)
	require.Equal(t, text, string(written), "CONCLAVE_WRITE=1 go test -run '^TestPage$' writes it")
}

func readTable(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(outcomes + "recorded/" + name + ".json")
	require.NoError(t, err)
	var read table
	require.NoError(t, json.Unmarshal(data, &read))
	lines := []string{strings.Join(read.Columns, " | "), "---" + strings.Repeat("|---:", len(read.Columns)-1)}
	for _, row := range read.Rows {
		lines = append(lines, strings.Join(row, " | "))
	}
	for i, line := range lines {
		if lines[i] = "| " + line + " |\n"; i == 1 {
			lines[i] = "|" + line + "|\n"
		}
	}
	return strings.Join(lines, "")
}

// evaluations returns the sections of the evaluations in a directory.
func evaluations(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, kind := range []string{"code", "choice", "arithmetic", "strings"} {
		data, err := os.ReadFile(filepath.Join(dir, kind, "samples.jsonl"))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		samples, err := eval.ReadSamples(data)
		require.NoError(t, err)
		var settings struct{ Arms []string }
		data, err = os.ReadFile(filepath.Join(dir, kind, "eval.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &settings))
		arms, err := eval.ParseArms(strings.Join(settings.Arms, ","))
		require.NoError(t, err)
		writeEvaluation(&b, kind, eval.Summarize(samples, arms))
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func writeEvaluation(b *strings.Builder, kind string, s eval.Summary) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", strings.ToUpper(kind[:1])+kind[1:], s.Reason)
	b.WriteString("| arm | right | accuracy | 95 % | unparsed | failed | tokens a question |\n|---|---:|---:|---|---:|---:|---:|\n")
	for _, name := range s.Order {
		f := s.Arms[name]
		fmt.Fprintf(b, "| %s | %d of %d | %.3f | %.3f to %.3f | %d | %d | %d |\n",
			armLabel(name), f.Correct, f.N, f.Accuracy, f.CI95[0], f.CI95[1], f.Unparsed, f.Failed, f.Tokens/int64(max(f.N, 1)))
	}
	b.WriteString("\n| difference | points | 95 % | p | questions needed |\n|---|---:|---|---:|---:|\n")
	for _, p := range s.Pairs {
		if !strings.HasPrefix(p.A, string(eval.Team)) {
			continue
		}
		needed := "–"
		if p.Needed != nil {
			needed = fmt.Sprint(*p.Needed)
		}
		fmt.Fprintf(b, "| %s less %s | %+.1f | %+.1f to %+.1f | %.4f | %s |\n", armLabel(p.A), armLabel(p.B), 100*p.Difference, 100*p.CI95[0], 100*p.CI95[1], p.P, needed)
	}
	if t := s.Team; t != nil {
		fmt.Fprintf(b, "\nOf the first answers %.0f %% are right, and %.0f %% of the questions have a right one. ", 100*t.FirstRight, 100*t.AnyRight)
		if t.Judging != nil {
			fmt.Fprintf(b, "Of %d votes where right and wrong answers were shown, %.0f %% were for a right one; chance gives %.0f %%. ", t.Votes, 100**t.Judging, 100**t.ByChance)
		}
		fmt.Fprintf(b, "Against the vote of its first answers the team has helped %d and hurt %d; agents lost: %d.\n", t.Helped, t.Hurt, t.Lost)
	}
}

func armLabel(arm string) string {
	if file, other := strings.CutPrefix(arm, string(eval.Team)+"="); other {
		return "team with `ballot: " + strings.TrimSuffix(file, ".yaml") + "`"
	}
	return arm
}

// The tables of teams: chosen ones, and all of three by the spread of their members.
func TestTables_ofTeams(t *testing.T) {
	t.Parallel()
	if _, all := kept(); !all {
		t.Skip("measured by make recorded")
	}
	r := readLetters(t, nil)
	p, best := replayer(r), strongest(t, r)
	var rows [][]string
	for _, c := range []struct {
		name    string
		members []string
	}{
		{"the best three, the strongest first", best[:3]},
		{"the second first", []string{best[1], best[0], best[2]}},
		{"the third first", []string{best[2], best[0], best[1]}},
		{"the best five", best[:5]},
		{"the best nine", best[:9]},
		{"ranks 8 to 10", best[7:10]},
		{"ranks 11 to 15", best[10:15]},
		{"the best with the two weakest", []string{best[0], best[27], best[26]}},
	} {
		replay := p.Replay(lineup(t, r, own, c.members...))
		pair, accuracy := eval.Pair{}, 0.0
		for _, m := range replay.Members {
			if m.Accuracy > accuracy {
				accuracy = m.Accuracy
				at := slices.IndexFunc(replay.Pairs, func(p eval.Pair) bool { return p.A == string(eval.Team) && p.B == m.Name })
				pair = replay.Pairs[at]
			}
		}
		rows = append(rows, []string{
			c.name, fmt.Sprintf("%.3f", accuracy), fmt.Sprintf("%.3f", replay.Team.Accuracy), fmt.Sprintf("%+.1f", 100*pair.Difference),
			fmt.Sprintf("%+.1f to %+.1f", 100*pair.CI95[0], 100*pair.CI95[1]), fmt.Sprintf("%.3f", replay.Ceiling),
			fmt.Sprintf("%.3f of %.3f", replay.Unanimous.Right, replay.Unanimous.Share), fmt.Sprintf("%.3f to %.3f", replay.Order.Worst, replay.Order.Best),
		})
	}
	keepTable(t, "teams", []string{"team", "best member", "team", "points", "95 %", "some member right", "unanimous: right, of", "by order"}, rows)
	keepTable(t, "spread", []string{"members apart by", "teams of three", "gain", "mean points", "lose 2 or more"}, bySpread(t, r, p))
}

// The tables of settings: what they cost in calls, and what a least support refuses.
func TestTables_ofSettings(t *testing.T) {
	t.Parallel()
	if _, all := kept(); !all {
		t.Skip("measured by make recorded")
	}
	r := readLetters(t, nil)
	p, best := replayer(r), strongest(t, r)
	keepTable(t, "settings", []string{"settings", "the best three: accuracy", "calls", "ranks 11 to 15: accuracy", "calls"}, settingsRows(t, r, p, best))
	keepTable(t, "refusals", []string{"team", "acts if at least", "on", "right"}, refusals(t, r, p, best))
}

func bySpread(t testing.TB, r *eval.Recording, p *eval.Replayer) (rows [][]string) {
	t.Helper()
	bands := []float64{0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 1}
	gains := make([][]float64, len(bands))
	names, alone := strongest(t, r), map[string]float64{}
	for _, name := range names {
		alone[name] = accuracyOf(t, r, p, name)
	}
	for _, members := range triples(&eval.Recording{Members: names}) {
		best, spread := alone[members[0]], alone[members[0]]-alone[members[2]]
		at := slices.IndexFunc(bands, func(b float64) bool { return spread <= b })
		gains[at] = append(gains[at], accuracyOf(t, r, p, members...)-best)
	}
	for i, each := range gains {
		if len(each) == 0 {
			continue
		}
		var gain, lose rate
		mean := 0.0
		for _, g := range each {
			gain.add(g > 0)
			lose.add(g <= -0.02)
			mean += 100 * g / float64(len(each))
		}
		name := fmt.Sprintf("%.0f to %.0f points", 100*bands[i-1], 100*bands[i])
		if bands[i] == 1 {
			name = fmt.Sprintf("more than %.0f", 100*bands[i-1])
		}
		rows = append(rows, []string{name, fmt.Sprint(len(each)), fmt.Sprintf("%.0f %%", 100*gain.share()), fmt.Sprintf("%+.1f", mean), fmt.Sprintf("%.0f %%", 100*lose.share())})
	}
	return rows
}

func settingsRows(t testing.TB, r *eval.Recording, p *eval.Replayer, best []string) (rows [][]string) {
	t.Helper()
	for _, c := range []struct {
		name   string
		change func(*config.Orchestrator)
	}{
		{"defaults", func(*config.Orchestrator) {}},
		{"`on_split: plurality`", func(o *config.Orchestrator) { o.OnSplit = "plurality" }},
		{"`decide_when: quorum`", func(o *config.Orchestrator) { o.DecideWhen = "quorum" }},
		{"`early_agreement`", func(o *config.Orchestrator) { o.EarlyAgreement = true }},
		{"`team_size: {start: 2}`", func(o *config.Orchestrator) { o.TeamSize.Start = new(2) }},
		{"both", func(o *config.Orchestrator) { o.EarlyAgreement, o.TeamSize.Start = true, new(2) }},
		{"both, `max_rounds: 1`", func(o *config.Orchestrator) {
			o.EarlyAgreement, o.TeamSize.Start, o.MaxRounds = true, new(2), new(1)
		}},
		{"both, `skip_voting`", func(o *config.Orchestrator) {
			o.EarlyAgreement, o.TeamSize.Start, o.SkipVoting = true, new(2), true
		}},
	} {
		team := config.Defaults[config.Team]()
		c.change(&team.Orchestrator)
		row := []string{c.name}
		for _, members := range [][]string{best[:3], best[10:15]} {
			l := lineup(t, r, own, members...)
			l.Config = team.Coordination()
			replay := p.Replay(l)
			row = append(row, fmt.Sprintf("%.3f", replay.Team.Accuracy), fmt.Sprintf("%.2f", replay.Calls))
		}
		rows = append(rows, row)
	}
	return rows
}

func refusals(t testing.TB, r *eval.Recording, p *eval.Replayer, best []string) (rows [][]string) {
	t.Helper()
	for _, n := range []int{3, 5, 9} {
		for _, point := range p.Replay(lineup(t, r, own, best[:n]...)).Curve {
			rows = append(rows, []string{fmt.Sprintf("the best %d", n), fmt.Sprintf("%.0f %% vote for it", 100*point.MinSupport), fmt.Sprintf("%.1f %%", 100*point.Acted), fmt.Sprintf("%.1f %%", 100*point.Right)})
		}
	}
	return rows
}

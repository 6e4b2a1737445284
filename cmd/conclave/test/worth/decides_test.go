//go:build !race

package worth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/worker"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// member is an agent of a team of programmers: a program, and the tests that it hands in with it.
type member struct {
	program int
	tests   []assert
}

// assert is an assert of a recorded batch.
type assert struct{ batch, index int }

func (k *task) text(a assert) string { return k.asserts[a.batch][a.index] }

func (k *task) passes(program int, a assert) bool {
	return k.verdictOn(program, strconv.Itoa(a.batch))[a.index] == '1'
}

// drawTeam draws the programs of a team. With dealt each member has a batch of the recorded tests, drawn like
// its program, which most often has no test; otherwise all batches are dealt to the members in turn, until each has
// as many asserts as an answer may bring.
func (k *task) drawTeam(chance *rand.Rand, size int, dealt bool) []member {
	team := make([]member, size)
	batches := chance.Perm(len(k.Tests))
	for i, p := range chance.Perm(len(k.Programs))[:size] {
		team[i].program = p
		if !dealt {
			team[i].addBatch(k, batches[i])
		}
	}
	turn := 0
	for _, b := range batches {
		if dealt && len(k.asserts[b]) > 0 {
			team[turn%size].addBatch(k, b)
			turn++
		}
	}
	return team
}

func (m *member) addBatch(k *task, batch int) {
	for i := range k.asserts[batch] {
		a := assert{batch, i}
		known := slices.ContainsFunc(m.tests, func(b assert) bool { return k.text(a) == k.text(b) })
		if !known && len(m.tests) < maxAsserts {
			m.tests = append(m.tests, a)
		}
	}
}

// decide returns the member for which the core decides if the members vote for their own programs.
func (k *task) decide(t testing.TB, team []member, ballot string) int {
	t.Helper()
	orchestrator := config.Defaults[config.Team]()
	orchestrator.Orchestrator.Ballot = ballot
	c := orchestrator.Coordination()
	for i := range team {
		c.Agents = append(c.Agents, "agent_"+string(rune('a'+i)))
	}
	of := func(agent string) int { return slices.Index(c.Agents, agent) }
	s := coordination.New(c)
	for range 100 {
		for _, command := range s.Drain() {
			switch command := command.(type) {
			case coordination.Launch:
				s.Step(k.endOf(team, command, of))
			case coordination.Check:
				verdicts := ""
				for _, id := range command.Checks {
					var author, index int
					_, err := fmt.Sscanf(id, "%d %d", &author, &index)
					require.NoError(t, err)
					verdicts += map[bool]string{true: "1", false: "0"}[k.passes(team[of(command.Answer.Agent)].program, team[author].tests[index])]
				}
				s.Step(coordination.Checked{ID: command.ID, Verdicts: verdicts})
			case coordination.Done:
				return of(command.Decision.Winner)
			}
		}
	}
	require.Fail(t, "the session does not end")
	return -1
}

func (k *task) endOf(team []member, l coordination.Launch, of func(string) int) coordination.Event {
	me := of(l.Agent)
	end := coordination.End{Launch: l.ID, Step: l.After + 1}
	if len(l.Shown) == 0 {
		e := coordination.Answered{End: end, Digest: coordination.Digest{Normalized: strconv.Itoa(k.program(team[me].program))}}
		for i := range team[me].tests {
			e.Checks = append(e.Checks, fmt.Sprintf("%d %d", me, i))
		}
		return e
	}
	vote := coordination.Voted{End: end}
	for _, shown := range slices.Backward(l.Shown) {
		vote.Seen = append(vote.Seen, coordination.Seen{Agent: shown.Agent, Step: shown.Step})
		if k.program(team[of(shown.Agent)].program) == k.program(team[me].program) {
			vote.Target, vote.TargetLabel = shown.Agent, shown.Label
		}
	}
	return vote
}

// agreeDually returns the member that CodeT's rule chooses: of the programs that pass the same tests, those of the
// set with the most tests passed, times the root of the number of programs. All tests run on all programs.
func (k *task) agreeDually(team []member) int {
	sets := map[string][]int{}
	var order []string
	for i, m := range team {
		passed := ""
		for author, other := range team {
			for n, a := range other.tests {
				if k.passes(m.program, a) {
					passed += fmt.Sprintf("%d %d,", author, n)
				}
			}
		}
		if passed != "" && sets[passed] == nil {
			order = append(order, passed)
		}
		sets[passed] = append(sets[passed], i)
	}
	best, most := 0, 0.0
	for _, passed := range order {
		if score := float64(strings.Count(passed, ",")) * math.Sqrt(float64(len(sets[passed]))); score > most {
			best, most = sets[passed][0], score
		}
	}
	return best
}

// programs are the shares of right programs by way to decide, by task.
type programs map[string][]float64

// interval returns the mean over tasks with its 95 % interval: tasks are drawn, and teams within them.
func interval(each []float64) (mean, half float64) {
	for _, x := range each {
		mean += x / float64(len(each))
	}
	sum := 0.0
	for _, x := range each {
		sum += (x - mean) * (x - mean)
	}
	n := float64(len(each))
	return mean, 1.96 * math.Sqrt(sum/n/(n-1))
}

// waysToDecide has the ways to decide in the order of the table.
var waysToDecide = []string{"single", "vote on text", "ballot: checks_decide", "dual agreement", "some program right"}

// decided is a team with the outcomes of its tests, for a second implementation.
type decided struct {
	Texts  []int      `json:"texts"`  // equal for programs of the same text
	Passed [][]string `json:"passed"` // by member and author
}

func (k *task) outcomesOf(team []member) (d decided) {
	for _, m := range team {
		var passed []string
		for _, author := range team {
			verdicts := ""
			for _, a := range author.tests {
				verdicts += map[bool]string{true: "1", false: "0"}[k.passes(m.program, a)]
			}
			passed = append(passed, verdicts)
		}
		d.Texts, d.Passed = append(d.Texts, k.program(m.program)), append(d.Passed, passed)
	}
	return d
}

// requireDecided compares decisions of the core with those of a second implementation in another language.
func requireDecided(t testing.TB, teams []decided, winners []int) {
	t.Helper()
	lines := runScript(t, map[string]any{"programs": teams})
	require.Len(t, lines, len(winners))
	for i, winner := range winners {
		require.Equal(t, strconv.Itoa(winner), string(lines[i]), "%+v", teams[i])
	}
}

func measurePrograms(t testing.TB, tasks []*task, draws, size int, dealt bool) programs {
	t.Helper()
	found, teams, winners := programs{}, []decided{}, []int{}
	for n, k := range tasks {
		chance := rand.New(rand.NewPCG(uint64(100*n+size), 39))
		right := map[string]float64{}
		for range draws {
			team := k.drawTeam(chance, size, dealt)
			checked := k.decide(t, team, "checks_decide")
			teams, winners = append(teams, k.outcomesOf(team)), append(winners, checked)
			for way, i := range map[string]int{
				"single": 0, "vote on text": k.decide(t, team, "text"), "ballot: checks_decide": checked, "dual agreement": k.agreeDually(team),
			} {
				if k.isRight(team[i].program) {
					right[way]++
				}
			}
			if slices.ContainsFunc(team, func(m member) bool { return k.isRight(m.program) }) {
				right["some program right"]++
			}
		}
		for _, way := range waysToDecide {
			found[way] = append(found[way], right[way]/float64(draws))
		}
	}
	requireDecided(t, teams, winners)
	return found
}

// less returns the difference of two ways to decide, by task.
func (p programs) less(a, b string) []float64 {
	var each []float64
	for i := range p[a] {
		each = append(each, p[a][i]-p[b][i])
	}
	return each
}

// sampleTasks returns the tasks to measure, with the verdicts of all programs and tests: all of them with `make
// recorded`, which keeps them.
func sampleTasks(t testing.TB) []*task {
	t.Helper()
	tasks := readTasks(t)
	dir, all := kept()
	if all {
		dir += "/programs"
		require.NoError(t, os.MkdirAll(dir, 0o755))
	} else {
		tasks = []*task{tasks[0], tasks[56], tasks[131]}
	}
	for _, k := range tasks {
		n := len(k.Programs)
		if !all {
			k.Programs, k.Tests, k.asserts = k.Programs[:30], k.Tests[:40], k.asserts[:40]
			n = 30
		}
		k.runPairs(t, dir, count(n))
	}
	return tasks
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	tasks := sampleTasks(t)
	t.Run("running decides", func(t *testing.T) { comparePrograms(t, tasks) })
	t.Run("sessions", func(t *testing.T) { compareSessions(t, tasks) })
}

// Running the tests that the members hand in decides for a right program more often than a vote on texts, and
// as often as CodeT's rule: the interval of the difference reaches 0.
func comparePrograms(t *testing.T, tasks []*task) {
	t.Helper()
	_, all := kept()
	draws := 10
	if all {
		draws = 60
	}
	var rows [][]string
	for _, dealt := range []bool{false, true} {
		for _, size := range []int{3, 5} {
			found := measurePrograms(t, tasks, draws, size, dealt)
			told := fmt.Sprintf("teams of %d, dealt %v:", size, dealt)
			row := []string{fmt.Sprintf("%d, one batch each", size)}
			if dealt {
				row = []string{fmt.Sprintf("%d, all batches dealt", size)}
			}
			for _, way := range waysToDecide {
				mean, half := interval(found[way])
				told += fmt.Sprintf(" %s %.3f ± %.3f;", way, mean, half)
				row = append(row, fmt.Sprintf("%.3f", mean))
			}
			gain, gainHalf := interval(found.less("ballot: checks_decide", "vote on text"))
			rival, rivalHalf := interval(found.less("ballot: checks_decide", "dual agreement"))
			t.Logf("%s less text %+.4f ± %.4f; less dual agreement %+.4f ± %.4f", told, gain, gainHalf, rival, rivalHalf)
			if all {
				require.Positive(t, gain-gainHalf)
				require.GreaterOrEqual(t, rival+rivalHalf, 0.0)
			}
			rows = append(rows, append(row, fmt.Sprintf("%+.1f (± %.1f)", 100*gain, 100*gainHalf), fmt.Sprintf("%+.1f (± %.1f)", 100*rival, 100*rivalHalf)))
		}
	}
	keepTable(t, "programs", []string{"members, tests", "one program", "vote on text", "`checks_decide`", "CodeT's rule", "some program right", "less the vote", "less CodeT's rule"}, rows)
}

// Sessions with their workflow, activities, files and checks in the sandbox decide as the core does on recorded
// verdicts: 60 with `make recorded`.
func compareSessions(t *testing.T, tasks []*task) {
	t.Helper()
	sessions := 4
	if _, all := kept(); all {
		sessions = 60
	}
	var settings worker.Config
	settings.Configure(worker.DefaultSettings())
	chance := rand.New(rand.NewPCG(60, 39))
	for n := 0; n < sessions; {
		k := tasks[chance.IntN(len(tasks))]
		team := k.drawTeam(chance, 3+2*chance.IntN(2), true)
		if len(team[0].tests)+len(team[1].tests) == 0 || k.isSlow(team) {
			continue
		}
		result := k.playSession(t, team, settings.Tools, fmt.Sprintf("s%d", n))
		require.Equal(t, "agent_"+string(rune('a'+k.decide(t, team, "checks_decide"))), result.Winner, "%s %v %v", k.ID, team, result.DecidedBy)
		n++
	}
}

// isSlow reports whether a test of the team took too long on one of its programs: on another machine it might not.
func (k *task) isSlow(team []member) bool {
	for _, m := range team {
		for _, other := range team {
			for _, a := range other.tests {
				if strings.Contains(k.verdictOn(m.program, strconv.Itoa(a.batch)), "t") {
					return true
				}
			}
		}
	}
	return false
}

// runTest runs one test of tests.json on solution.py, as testdata/pairs.py does.
const runTest = `import json, signal, sys
sys.setrecursionlimit(2000)
signal.signal(signal.SIGPROF, lambda *_: sys.exit(1))
names = {"__name__": "program"}
signal.setitimer(signal.ITIMER_PROF, 2)
exec(compile(open("solution.py").read(), "program", "exec"), names)
exec(compile(json.load(open(".conclave/checks/tests.json"))[int(sys.argv[1])], "test", "exec"), names)
`

func (k *task) playSession(t *testing.T, team []member, tools *worker.Tools, id string) session.Result {
	t.Helper()
	s := stagetest.New(t, nil, func(standard *config.Team) {
		*standard = config.Defaults[config.Team]()
		standard.Orchestrator.Ballot = "checks_decide"
		for i := range team {
			a := config.Defaults[config.Agent]()
			a.ID, a.Backend.Model = "agent_"+string(rune('a'+i)), "m"
			standard.Agents = append(standard.Agents, a)
		}
	})
	s.Confine = tools.Confine
	s.Model = func(a config.Agent) (loop.Model, error) {
		return &programmer{k, team[a.ID[len(a.ID)-1]-'a']}, nil
	}
	return stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: k.Prompt, SessionID: id})
}

// programmer is the model of a member: it writes its program and its tests, answers, and votes for its program.
type programmer struct {
	task   *task
	member member
}

var shownAnswer = regexp.MustCompile(`(?m)^=== \S+ begin (agent\d+)\.\d+ ===\nProgram (\d+)\.$`)

func (p *programmer) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	written, prompt := 0, ""
	for _, m := range req.Messages {
		written += len(m.ToolCalls)
		if m.Role == llm.User {
			prompt += m.Content
		}
	}
	mine := strconv.Itoa(p.task.program(p.member.program))
	for _, shown := range shownAnswer.FindAllStringSubmatch(prompt, -1) {
		if shown[2] == mine {
			return reply(stagetest.Call("vote", map[string]string{"agent_id": shown[1], "reason": "It is my own."}))
		}
	}
	files := [][2]string{{"solution.py", p.task.Programs[p.member.program]}}
	if len(p.member.tests) > 0 {
		var texts []string
		var checks []map[string]string
		for i, a := range p.member.tests {
			texts = append(texts, p.task.text(a))
			checks = append(checks, map[string]string{"name": fmt.Sprint("test ", i), "command": fmt.Sprint("/usr/bin/python3 .conclave/checks/run.py ", i)})
		}
		tests, _ := json.Marshal(texts)
		list, _ := json.Marshal(checks)
		files = append(files, [2]string{".conclave/checks/run.py", runTest}, [2]string{".conclave/checks/tests.json", string(tests)}, [2]string{".conclave/checks/checks.yaml", string(list)})
	}
	if written < len(files) {
		return reply(stagetest.Call("write_file", map[string]string{"path": files[written][0], "content": files[written][1]}))
	}
	return reply(stagetest.Call("new_answer", map[string]string{"content": "Program " + mine + "."}))
}

func reply(m llm.Message) (llm.Reply, error) {
	return llm.Reply{Message: m, Usage: llm.Usage{InputTokens: 10, OutputTokens: 1, ModelCalls: 1}}, nil
}

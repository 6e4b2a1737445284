package stage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// Three is the team of most scripts.
var Three = []string{"agent_a", "agent_b", "agent_c"}

// ThreeRounds is a session in which agent_c's second answer makes two votes stale and wins by
// consensus. It also has a person's message, a rejected reply, and a final answer with files.
func ThreeRounds(t testing.TB) *Play {
	p := NewRecord(t, "Which database suits a small shop?", coordination.Config{Agents: Three})
	p.Tool(2, "agent_a", "list_files", `{"path":"."}`, "notes.md")
	p.Answer(2, "agent_a", "Use **PostgreSQL**.\n\n1. It scales.\n2. Everybody knows it.\n", nil)
	p.Answer(1, "agent_b", "Use MySQL: it is simple.\n", nil)
	p.Reject(1, "agent_c", "no_tool_calls", "Finish by calling new_answer or vote.")
	p.Answer(2, "agent_c", "Use SQLite.\n\nOne file.\n", map[string]string{"shop.sql": "CREATE TABLE sale (id INTEGER);\n", "README.md": "# Shop\n"})
	p.Say(1, "", "The shop is often offline.")
	p.Update("agent_a")
	p.Update("agent_b")
	p.Vote(2, "agent_a", "agent_b", "It is the simplest of the three.")
	p.Vote(1, "agent_b", "agent_b", "Simple to run.")
	p.Update("agent_c")
	p.Answer(3, "agent_c", "Use SQLite.\n\nOne file, with WAL: the till keeps working when the line is down.\n\n```go\ndb, err := sql.Open(\"sqlite\", \"shop.db\")\n```\n",
		map[string]string{"shop.sql": "CREATE TABLE sale (id INTEGER PRIMARY KEY);\n", "README.md": "# Shop\n", "main.go": "package main\n\n// main opens the shop.\nfunc main() { open(\"shop.db\", 1) }\n"})
	p.Vote(2, "agent_a", "agent_c", "It works without a line, and nothing has to be run.")
	p.Vote(1, "agent_b", "agent_c", "WAL answers my worry about concurrent writes.")
	p.Vote(1, "agent_c", "agent_c", "Mine covers the message about the line.")
	return p
}

// backToItsOwn is a session in which agent_c votes for another answer, and then for its own again.
func backToItsOwn(t testing.TB) *Play {
	p := NewRecord(t, "Which queue?", coordination.Config{Agents: Three})
	for _, agent := range Three {
		p.Answer(1, agent, "Use the queue of "+agent+".\n", nil)
	}
	p.Reject(1, "agent_c", "invalid_vote_id", "The agent_id names no answer that you were shown. It can be agent1.")
	p.Vote(1, "agent_c", "agent_a", "It is the shortest.")
	p.Answer(1, "agent_b", "Use the queue of agent_b, twice.\n", nil)
	p.Update("agent_a")
	p.Vote(1, "agent_a", "agent_b", "Twice is better.")
	p.Vote(1, "agent_c", "agent_c", "Mine is still the best.")
	p.Vote(1, "agent_b", "agent_b", "Mine.")
	return p
}

// Script writes a session up to its end.
type Script struct {
	Name string
	Play func(t testing.TB) *Play
}

// Scripts has sessions with every kind of end.
var Scripts = []Script{
	{"three rounds", ThreeRounds},
	{"dissent", dissent},
	{"tie", tie},
	{"one failure", oneFailure},
	{"all failed", allFailed},
	{"finished by a person", finishedByPerson},
	{"time up", timeUp},
	{"budget", budget},
	{"step limit", stepLimit},
	{"split", split},
	{"revote", revote},
	{"presented", presented},
	{"no vote", noVote},
	{"cancelled", cancelled},
	{"paused", paused},
	{"message to one", messageToOne},
	{"alone", alone},
	{"many rejections", manyRejections},
	{"many files", manyFiles},
	{"twenty-six agents", TwentySix},
	{"equal first answers", equalAnswers},
	{"quorum", quorum},
	{"undecided", undecided},
	{"all failed after answers", failedAfterAnswers},
	{"checks", Checked},
	{"evaluated", Evaluated},
	{"back to its own", backToItsOwn},
}

// Named runs the script with a name.
func Named(t testing.TB, name string) *Play {
	t.Helper()
	for _, script := range Scripts {
		if script.Name == name {
			return script.Play(t)
		}
	}
	require.FailNow(t, "no script has this name", name)
	return nil
}

func answerEach(p *Play) {
	p.Answer(3, "agent_a", "Take the train.", nil)
	p.Answer(1, "agent_b", "Take the bus.", nil)
	p.Answer(2, "agent_c", "Walk.", nil)
}

func threeAnswers(t testing.TB) *Play {
	p := NewRecord(t, "How do I get to the market?", coordination.Config{Agents: Three})
	answerEach(p)
	return p
}

func dissent(t testing.TB) *Play {
	p := threeAnswers(t)
	p.Vote(2, "agent_a", "agent_b", "The bus stops at the market.")
	p.Vote(1, "agent_b", "agent_b", "It stops there.")
	p.Vote(4, "agent_c", "agent_c", "It is <b>two hundred</b> metres & walking is free.")
	return p
}

func tie(t testing.TB) *Play {
	p := NewRecord(t, "Tea or coffee?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, OnSplit: "plurality"})
	p.Answer(1, "agent_a", "Tea.", nil)
	p.Answer(1, "agent_b", "Coffee.", nil)
	p.Vote(2, "agent_a", "agent_a", "Tea is calmer.")
	p.Vote(1, "agent_b", "agent_b", "Coffee is quicker.")
	return p
}

func oneFailure(t testing.TB) *Play {
	p := NewRecord(t, "How do I get to the market?", coordination.Config{Agents: Three})
	p.Answer(3, "agent_a", "Take the train.", nil)
	p.Answer(1, "agent_b", "Take the bus.", nil)
	p.Fail(7, "agent_c", "AuthFailed", "the key in OPENAI_API_KEY is refused")
	p.Vote(2, "agent_a", "agent_b", "The bus is direct.")
	p.Vote(1, "agent_b", "agent_b", "Direct.")
	return p
}

func allFailed(t testing.TB) *Play {
	p := NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	p.Fail(2, "agent_a", "Network", "the server does not answer")
	p.Fail(1, "agent_b", "NoAction", "3 replies without an action")
	return p
}

func finishedByPerson(t testing.TB) *Play {
	p := threeAnswers(t)
	p.Vote(2, "agent_a", "agent_c", "Walking never fails.")
	p.Event(1, coordination.Finish{})
	return p
}

func timeUp(t testing.TB) *Play {
	p := threeAnswers(t)
	p.Vote(2, "agent_b", "agent_a", "The train is fast.")
	p.Event(30, coordination.TimeUp{})
	return p
}

func budget(t testing.TB) *Play {
	p := NewRecord(t, "How?", coordination.Config{Agents: Three, Budget: coordination.Allowance{USD: 0.02}})
	answerEach(p)
	return p
}

func stepLimit(t testing.TB) *Play {
	p := NewRecord(t, "Which?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, MaxStepsPerAgent: 2})
	p.Answer(1, "agent_a", "One.", nil)
	p.Answer(1, "agent_b", "Two.", nil)
	p.Answer(1, "agent_a", "Still one.", nil)
	p.Vote(1, "agent_b", "agent_a", "One it is.")
	return p
}

func split(t testing.TB) *Play {
	p := NewRecord(t, "Left or right?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, OnSplit: coordination.SplitFail})
	p.Answer(1, "agent_a", "Left.", nil)
	p.Answer(1, "agent_b", "Right.", nil)
	p.Vote(1, "agent_a", "agent_a", "Left is right.")
	p.Vote(1, "agent_b", "agent_b", "Right is right.")
	return p
}

func revote(t testing.TB) *Play {
	p := NewRecord(t, "Left or right?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, OnSplit: "revote", MaxRevotes: 1})
	p.Answer(1, "agent_a", "Left.", nil)
	p.Answer(1, "agent_b", "Right.", nil)
	p.Vote(1, "agent_a", "agent_a", "Left is right.")
	p.Vote(1, "agent_b", "agent_b", "Right is right.")
	p.Vote(1, "agent_a", "agent_b", "I yield: right it is.")
	p.Vote(1, "agent_b", "agent_b", "Right.")
	return p
}

func presented(t testing.TB) *Play {
	p := NewRecord(t, "Which one?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, Strategy: "winner_present"})
	p.Answer(1, "agent_a", "This one.", nil)
	p.Answer(1, "agent_b", "That one.", nil)
	p.Vote(1, "agent_a", "agent_b", "That is better.")
	p.Vote(1, "agent_b", "agent_b", "Mine.")
	p.Answer(2, "agent_b", "That one, in full sentences.", map[string]string{"final.md": "That one.\n"})
	return p
}

func noVote(t testing.TB) *Play {
	p := NewRecord(t, "Name colors.", coordination.Config{Agents: []string{"agent_a", "agent_b"}, SkipVoting: true})
	p.Answer(1, "agent_a", "Red.", nil)
	p.Answer(1, "agent_b", "Blue.", nil)
	return p
}

func cancelled(t testing.TB) *Play {
	p := threeAnswers(t)
	p.Event(5, coordination.CancelRequested{})
	return p
}

func paused(t testing.TB) *Play {
	p := NewRecord(t, "Is it late?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	p.Answer(1, "agent_a", "Yes.", nil)
	p.Event(1, coordination.Pause{})
	p.Suspend("agent_b")
	p.Event(8*3600, coordination.Resume{})
	p.Answer(2, "agent_b", "No.", nil)
	p.Vote(1, "agent_a", "agent_b", "It is early.")
	p.Vote(1, "agent_b", "agent_b", "Early.")
	return p
}

func messageToOne(t testing.TB) *Play {
	p := threeAnswers(t)
	p.Vote(2, "agent_b", "agent_b", "The bus.")
	p.Say(1, "agent_b", "There is no bus on Sundays.")
	p.Vote(1, "agent_a", "agent_b", "The bus is cheap.")
	p.Vote(1, "agent_c", "agent_c", "Walking is free.")
	p.Vote(3, "agent_b", "agent_c", "Without a bus, walk.")
	if p.decision == nil {
		p.Event(1, coordination.Finish{})
	}
	return p
}

func alone(t testing.TB) *Play {
	p := NewRecord(t, "2 + 2?", coordination.Config{Agents: []string{"agent_a"}})
	p.Answer(1, "agent_a", "4", nil)
	if p.decision == nil {
		p.Vote(1, "agent_a", "agent_a", "It is 4.")
	}
	return p
}

func manyRejections(t testing.TB) *Play {
	p := NewRecord(t, "Say it.", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	p.Reject(1, "agent_a", "no_tool_calls", "Finish by calling new_answer.")
	p.Reject(1, "agent_a", "invalid_arguments", `new_answer takes {"content": "your complete answer"}.`)
	p.Answer(1, "agent_a", "It.", nil)
	p.Answer(1, "agent_b", "That.", nil)
	p.Reject(1, "agent_b", "answer_not_novel", "It repeats an answer.")
	p.Vote(1, "agent_a", "agent_a", "It.")
	p.Vote(1, "agent_b", "agent_a", "It, after all.")
	return p
}

func manyFiles(t testing.TB) *Play {
	p := NewRecord(t, "Write a site.", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	files := map[string]string{"index.html": "<h1>Shop</h1><script>alert(1)</script>\n", "css/site.css": "h1 { color: red }\n", "a b/ü.txt": "umlaut\n", "data.bin": "\x00\x01\x02"}
	p.Answer(1, "agent_a", "See index.html.", files)
	p.Answer(1, "agent_b", "No files.", nil)
	p.Vote(1, "agent_a", "agent_a", "It has files.")
	p.Vote(1, "agent_b", "agent_a", "Complete.")
	return p
}

// equalAnswers ends before any vote, because two of three first answers are equal.
func equalAnswers(t testing.TB) *Play {
	p := NewRecord(t, "2 + 2?", coordination.Config{Agents: Three, Early: true})
	p.Answer(1, "agent_a", "4", nil)
	p.Answer(2, "agent_b", "5", nil)
	p.Answer(1, "agent_c", "4", nil)
	return p
}

// quorum ends while agent_c is still working.
func quorum(t testing.TB) *Play {
	p := NewRecord(t, "How do I get to the market?", coordination.Config{Agents: Three, Quorum: true})
	answerEach(p)
	p.Vote(2, "agent_a", "agent_b", "The bus is direct.")
	p.Vote(1, "agent_b", "agent_b", "Direct.")
	return p
}

// undecided ends with less support than the team requires.
func undecided(t testing.TB) *Play {
	p := NewRecord(t, "How do I get to the market?", coordination.Config{Agents: Three, MinSupport: 0.9})
	answerEach(p)
	p.Vote(2, "agent_a", "agent_b", "The bus is direct.")
	p.Vote(1, "agent_b", "agent_b", "Direct.")
	p.Vote(1, "agent_c", "agent_c", "Walking is free.")
	return p
}

// failedAfterAnswers ends without a decision, and keeps the newest answer.
func failedAfterAnswers(t testing.TB) *Play {
	p := threeAnswers(t)
	for _, agent := range Three {
		p.Fail(1, agent, "NoAction", "The model called no tool.")
	}
	return p
}

// Checked is a session in which checks overrule the votes. Its team grows from two agents.
func Checked(t testing.TB) *Play {
	p := NewRecord(t, "Sort the list.", coordination.Config{
		Agents: Three, Start: 2, Grow: 1, Ballot: "checks_decide", Checks: []string{"c1", "c2"}, OnSplit: "plurality",
	})
	p.Answer(1, "agent_a", "sort", map[string]string{"sort.sh": "sort\n"})
	p.Check(1, "agent_a", "10")
	p.Answer(1, "agent_b", "sort -n", map[string]string{"sort.sh": "sort -n\n"})
	p.Check(1, "agent_b", "11")
	p.Vote(1, "agent_a", "agent_a", "It is shorter.")
	p.Vote(1, "agent_b", "agent_b", "It sorts numbers.")
	p.Answer(1, "agent_c", "sort -h", map[string]string{"sort.sh": "sort -h\n"})
	p.Check(1, "agent_c", "0?")
	for _, agent := range Three {
		p.Vote(1, agent, "agent_a", "It is shorter.")
	}
	return p
}

// Evaluated is a session in which every answer is evaluated before its agent's next step.
func Evaluated(t testing.TB) *Play {
	p := NewRecord(t, "How do I get to the market?", coordination.Config{Agents: []string{"agent_a", "agent_b"}, Critiques: true})
	p.Answer(2, "agent_a", "Take the train.", nil)
	p.Answer(1, "agent_b", "Take the bus.", nil)
	p.Evaluate(2, "agent_a", coordination.Iterate, 6, 5.5)
	p.Evaluate(1, "agent_b", coordination.Converged, 8, 9)
	p.Answer(2, "agent_a", "Take the train to Market Street.", nil)
	p.Vote(1, "agent_b", "agent_b", "The bus is direct.")
	p.Evaluate(1, "agent_a", coordination.Converged, 9, 8)
	p.Vote(1, "agent_a", "agent_a", "It names the street.")
	p.Vote(1, "agent_b", "agent_a", "It does.")
	return p
}

// TwentySix is a session of the largest team.
func TwentySix(t testing.TB) *Play {
	var agents []string
	for c := 'a'; c <= 'z'; c++ {
		agents = append(agents, "agent_"+string(c))
	}
	p := NewRecord(t, "Which letter is the best?", coordination.Config{Agents: agents})
	for i, a := range agents {
		p.Answer(float64(i%3)+0.5, a, "The letter "+a[len(a)-1:]+".", nil)
	}
	for i, a := range agents {
		target := "agent_m"
		if i%5 == 0 {
			target = a
		}
		p.Vote(float64(i%4)+0.5, a, target, "It is in the middle, or mine.")
	}
	return p
}

// Thousand is a running session of a thousand steps. Its ten agents take turns: first all of
// them answer, then all but the last one vote, and the last one answers again, which makes the
// votes stale.
func Thousand(t testing.TB) *Play {
	var agents []string
	for c := 'a'; c <= 'j'; c++ {
		agents = append(agents, "agent_"+string(c))
	}
	p := NewRecord(t, "Can it be better still?", coordination.Config{Agents: agents, MaxStepsPerAgent: 200})
	last := len(agents) - 1
	for turn := range 50 {
		for _, a := range agents {
			p.Answer(1, a, "Yes: this is a better answer than the one before.", nil)
		}
		for i, a := range agents[:last] {
			p.Vote(1, a, agents[(i+turn)%len(agents)], "It is the best so far.")
		}
		p.Answer(1, agents[last], "Better than those that you vote for.", nil)
	}
	return p
}

// Command worth writes docs/worth.md from the evaluations that worth.sh stored in a directory: go
// run ./cmd/worth DIR > docs/worth.md.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"conclave/engine/eval"
)

// kinds lists the evaluations in the order of the page.
var kinds = []string{"code", "choice", "arithmetic", "strings"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./cmd/worth DIR")
		os.Exit(1)
	}
	page, err := writePage(os.Args[1], cmp.Or(os.Getenv("WORTH_MODEL"), small))
	if err != nil {
		fmt.Fprintf(os.Stderr, "worth: %v\n", err)
		os.Exit(1)
	}
	fmt.Print(page)
}

// small names the model of .ci/weights.sh after .ci/requantize.py has changed its weights to four bits.
const small = "Qwen2.5-Coder-0.5B-Instruct (Q4_0)"

// intro is the text above the tables, a format string for the name of the model.
const intro = "# Our own figures\n\n" +
	"`make worth` asks generated questions (`conclave eval gen`, seed 7) of %s: three agents of one\n" +
	"model at temperature 0.7 without tools that answer once and vote in plain text (`text_answers: always`), with reasoning asked\n" +
	"for (`think_first: on`). [docs/evaluation.md](evaluation.md) explains arms and figures, and `worth/` has the outcome of each question.\n"

// limits is the text after intro on the page of the small model.
const limits = "\nAn answer without the line `ANSWER:` is read at its last `\\boxed{…}`, which this model writes on most questions of\n" +
	"arithmetic. That reading, the words in which plain votes are asked for, and the limit of 450 tokens a reply were chosen after\n" +
	"a trial on the first questions of arithmetic, so that replies can be read. Those questions were then asked again and are in\n" +
	"the tables.\n" +
	"\nThe three agents are one model of half a billion parameters, so they err alike. On multiple choice guessing gives 25 %. The\n" +
	"figures do not carry over to larger models; `OPENAI_BASE_URL=… WORTH_MODEL=… make worth` measures those.\n"

func writePage(dir, model string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, intro, model)
	if model == small {
		b.WriteString(limits)
	}
	asked := 0
	var sections strings.Builder
	for _, kind := range kinds {
		s, err := readSummary(filepath.Join(dir, kind, "summary.json"))
		if errors.Is(err, fs.ErrNotExist) || len(s.Order) == 0 {
			continue
		}
		if err != nil {
			return "", err
		}
		asked++
		writeHeadline(&b, s)
		writeSection(&sections, kind, s)
	}
	if asked == 0 {
		return "", fmt.Errorf("%s has no evaluation with an outcome", dir)
	}
	return b.String() + sections.String(), nil
}

func readSummary(file string) (s eval.Summary, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

func writeSection(b *strings.Builder, kind string, s eval.Summary) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", strings.ToUpper(kind[:1])+kind[1:], s.Reason)
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

// writeHeadline compares a team that decides by running checks with one that votes on text, if both
// were asked.
func writeHeadline(b *strings.Builder, s eval.Summary) {
	for _, p := range s.Pairs {
		if p.A != "team=checks_decide.yaml" || p.B != string(eval.Team) {
			continue
		}
		fmt.Fprintf(b, "\n**On code, a team that decides by running the two examples of each question (`ballot: checks_decide`) is right on %d of %d, one\n"+
			"that votes on the text on %d: %+.1f points, 95 %% from %+.1f to %+.1f (p = %.4f).**\n"+eval.Judged+"\n",
			s.Arms[p.A].Correct, s.Arms[p.A].N, s.Arms[p.B].Correct, 100*p.Difference, 100*p.CI95[0], 100*p.CI95[1], p.P)
	}
}

func armLabel(arm string) string {
	if file, other := strings.CutPrefix(arm, string(eval.Team)+"="); other {
		return "team with `ballot: " + strings.TrimSuffix(file, ".yaml") + "`"
	}
	return arm
}

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"conclave/activities/sandbox"
)

// judgeCommand makes this binary a judge, in the directory and at the level of its arguments: the
// tests start it as another user.
const judgeCommand = "__judge"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case ChildCommand:
			os.Exit(testChild(os.Args[2], os.Args[3:]))
		case judgeCommand:
			os.Exit(judge(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// testChild plays the roles of RunChild for all attacks, including those of the tests.
func testChild(role string, args []string) int {
	roles := map[string]func([]string) error{"victim": suffer, "hop": hop, "hog": hog, "spin": spin}
	play, ok := roles[role]
	if !ok {
		return runChild(all(), append([]string{role}, args...), os.Stdin, os.Stdout)
	}
	if err := play(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// judged is the output of a judge.
type judged struct {
	Host    sandbox.Host
	Results []Result
}

func judge(args []string) int {
	ctx := context.Background()
	j := judged{Host: sandbox.Probe(ctx)}
	var err error
	j.Results, err = runAttacks(ctx, all(), Options{Level: sandbox.Level(args[1]), Host: j.Host, Only: args[2:]}, args[0])
	if _, refused := errors.AsType[*sandbox.LevelError](err); err == nil || refused {
		err = json.NewEncoder(os.Stdout).Encode(j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxInputFile is how large a file may be that a person names on the command
// line, in bytes: more than any team or criteria, less than hurts.
const maxInputFile = 1 << 20

// readInput reads a file that was named on the command line. What is no regular
// file is refused before it is opened: a pipe may never end, a device neither.
func readInput(name string) ([]byte, error) {
	if name == "-" {
		return nil, errors.New("- stands for no file here, standard input is not read; name a file")
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s; name a regular file", name, kindOf(info.Mode()))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxInputFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxInputFile {
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read", name, maxInputFile)
	}
	return data, nil
}

// kindOf names what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// readTeamFile reads a team's file and says how to get one if there is none.
func readTeamFile(name string) ([]byte, error) {
	data, err := readInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the team configuration: %w; `conclave config init %s` writes a starter file", err, shellQuote(name))
	case err != nil:
		return nil, fmt.Errorf("read the team configuration: %w", err)
	}
	return data, nil
}

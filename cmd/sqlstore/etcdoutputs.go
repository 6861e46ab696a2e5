package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"gopkg.in/natefinch/lumberjack.v2"
)

// The values of --log-outputs that are no files.
const (
	outputDefault = "default"
	outputStderr  = "stderr"
	outputStdout  = "stdout"
	outputJournal = "systemd/journal" // systemd passes standard error to the journal
	outputNone    = "/dev/null"       // nothing is written, not even to the other outputs
)

// outputs opens the outputs of --log-outputs. Errors: errSettings.
func (e *etcdMode) outputs() (io.Writer, func(), error) {
	o := e.options
	names := o.List("log-outputs")
	if len(names) > 1 && slices.Contains(names, outputDefault) {
		return nil, nil, fmt.Errorf("%w: --log-outputs: %q stands alone", errSettings, outputDefault)
	}
	if slices.Contains(names, outputNone) {
		return io.Discard, func() {}, nil
	}
	rotation, err := e.rotation(names)
	if err != nil {
		return nil, nil, err
	}
	var (
		writers []io.Writer
		files   []io.Closer
	)
	for _, name := range names {
		switch name {
		case outputDefault, outputStderr, outputJournal:
			writers = append(writers, os.Stderr)
		case outputStdout:
			writers = append(writers, os.Stdout)
		default:
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: --log-outputs: %w", errSettings, err)
			}
			if rotation == nil {
				writers, files = append(writers, f), append(files, f)
				continue
			}
			_ = f.Close() // it only had to be possible
			rotation.Filename = name
			writers, files = append(writers, rotation), append(files, rotation)
		}
	}
	if len(writers) == 0 {
		writers = append(writers, os.Stderr)
	}
	return io.MultiWriter(writers...), func() {
		for _, f := range files {
			_ = f.Close()
		}
	}, nil
}

// rotation returns the file that rotates, or nil if none does. It needs exactly one file among the outputs.
func (e *etcdMode) rotation(outputs []string) (*lumberjack.Logger, error) {
	if e.options.Text("enable-log-rotation") != "true" {
		return nil, nil
	}
	files := 0
	for _, name := range outputs {
		if !slices.Contains([]string{outputDefault, outputStderr, outputStdout, outputJournal}, name) {
			files++
		}
	}
	if files != 1 {
		return nil, fmt.Errorf("%w: --enable-log-rotation needs one file in --log-outputs", errSettings)
	}
	rotation := &lumberjack.Logger{}
	if err := json.Unmarshal([]byte(e.options.Text("log-rotation-config-json")), rotation); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: --log-rotation-config-json", errSettings), err)
	}
	return rotation, nil
}

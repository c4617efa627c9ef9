package main

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// What this machine allows: disks and clocks of our own. What is missing is said, and its faults are skipped.

// insideVariable is set in the process that has mounts of its own.
const insideVariable = "HISTORIES_INSIDE"

// enter starts this program again with mounts that nobody else sees and that end with it, as root or as a user to
// whom the kernel gives namespaces. It returns the exit status, or why there is no such process.
func enter() (int, error) {
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), insideVariable+"=yes")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread()
	if err := command.Start(); err != nil {
		return 0, err
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() { command.Process.Signal(<-ends) }()
	command.Wait()
	return command.ProcessState.ExitCode(), nil
}

// whyNoDisks tries to mount a disk of our own.
func whyNoDisks(folder string) string {
	if os.Getenv(insideVariable) == "" {
		return "no namespace for mounts"
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Sprintf("mounts cannot be made private: %v", err)
	}
	probe := filepath.Join(folder, "probe")
	os.MkdirAll(probe, 0o755)
	if err := syscall.Mount("tmpfs", probe, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Sprintf("tmpfs is not mounted: %v", err)
	}
	syscall.Unmount(probe, 0)
	return ""
}

//go:embed preload/clock.c
var clockSource []byte

// clockLibrary is what nodes load, "" where clocks do not move.
var clockLibrary string

// whyNoClocks builds the library that moves clocks.
func whyNoClocks(folder string) string {
	source, library := filepath.Join(folder, "clock.c"), filepath.Join(folder, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o644); err != nil {
		return err.Error()
	}
	if output, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		return fmt.Sprintf("no C compiler that works: %v %s", err, output)
	}
	clockLibrary = library
	return ""
}

// clockEnvironment is what a node is started with, so that its clock can be moved.
func clockEnvironment(n *node) []string {
	if clockLibrary == "" {
		return nil
	}
	if _, err := os.Stat(n.folder + ".clock"); err != nil {
		moveClock(n, 0)
	}
	return []string{"LD_PRELOAD=" + clockLibrary, "HISTORIES_CLOCK=" + n.folder + ".clock"}
}

// moveClock sets how far the wall clock of a node is ahead.
func moveClock(n *node, ahead time.Duration) {
	file, err := os.OpenFile(n.folder+".clock", os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer file.Close()
	file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
}

// starts is asked for every process: a process that ends with its parent ends with the thread that made it, so one
// thread makes them all and stays.
var starts = make(chan start)

type start struct {
	command *exec.Cmd
	done    chan error
}

func startOnThread(command *exec.Cmd) error {
	one := start{command, make(chan error)}
	starts <- one
	return <-one.done
}

func startProcesses() {
	runtime.LockOSThread()
	for one := range starts {
		one.done <- one.command.Start()
	}
}

// What a Go program does with a cluster through go-redis: cluster PORT..., those of three primaries and of their replicas.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

var ctx = context.Background()

// check ends the program with what went wrong.
func check(holds bool, what string, values ...any) {
	if !holds {
		fmt.Println(append([]any{"failed:", what}, values...)...)
		os.Exit(1)
	}
}

func until(what string, holds func() bool) {
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		check(time.Now().Before(end), what)
	}
}

type nodes map[string]*redis.Client

func (all nodes) do(port string, words ...any) any {
	reply, err := all[port].Do(ctx, words...).Result()
	check(err == nil, "a command to a node", port, words, err)
	return reply
}

// open has a slot on its way from one node to another.
func (all nodes) open(slot int64, source, target string) {
	all.do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", all.do(source, "CLUSTER", "MYID"))
	all.do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", all.do(target, "CLUSTER", "MYID"))
}

// close moves what is left of it, and gives it to the other node.
func (all nodes) close(slot int64, source, target string) {
	words := []any{"MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS"}
	all.do(source, append(words, all.do(source, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)...)...)
	id := all.do(target, "CLUSTER", "MYID")
	for _, port := range []string{target, source} {
		all.do(port, "CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}

var getCalls = regexp.MustCompile(`cmdstat_get:calls=(\d+)`)

// reads is how many GETs the nodes have served.
func (all nodes) reads(ports []string) (sum int) {
	for _, port := range ports {
		if found := getCalls.FindStringSubmatch(all.do(port, "INFO", "commandstats").(string)); found != nil {
			count, _ := strconv.Atoi(found[1])
			sum += count
		}
	}
	return sum
}

func value(client *redis.ClusterClient, key, expected string) {
	found, err := client.Get(ctx, key).Result()
	check(err == nil && found == expected, "GET "+key, found, err)
}

func set(client *redis.ClusterClient, key, value string) {
	check(client.Set(ctx, key, value, 0).Err() == nil, "SET "+key)
}

func exercise(ports []string, protocol int) {
	primaries, replicas := ports[:3], ports[3:]
	all := nodes{}
	for _, port := range ports {
		all[port] = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		defer all[port].Close()
	}
	for _, port := range primaries {
		all.do(port, "FLUSHALL")
	}
	options := redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + ports[0]}, Protocol: protocol}
	client := redis.NewClusterClient(&options)
	defer client.Close()
	var lock sync.Mutex
	var masters, slaves int
	count := func(number *int) func(context.Context, *redis.Client) error {
		return func(context.Context, *redis.Client) error {
			lock.Lock()
			defer lock.Unlock()
			*number++
			return nil
		}
	}
	check(client.ForEachMaster(ctx, count(&masters)) == nil && masters == 3, "three primaries", masters)
	check(client.ForEachSlave(ctx, count(&slaves)) == nil && slaves == 3, "three replicas", slaves)

	pipe := client.Pipeline()
	for index := range 300 {
		name := "key:" + strconv.Itoa(index)
		set(client, name, name)
		value(client, name, name)
		pipe.Append(ctx, name, "+")
		pipe.Get(ctx, name)
	}
	for _, port := range primaries {
		check(all.do(port, "DBSIZE").(int64) > 50, "keys on every node")
	}
	replies, err := pipe.Exec(ctx)
	check(err == nil && len(replies) == 600, "a pipeline over all slots", err)
	for index := range 300 {
		found := replies[2*index+1].(*redis.StringCmd).Val()
		check(found == "key:"+strconv.Itoa(index)+"+", "a pipeline's order", found)
	}
	check(client.MSet(ctx, "{tag}:1", "a", "{tag}:2", "b").Err() == nil, "MSET of a tag")
	many, err := client.MGet(ctx, "{tag}:1", "missing{tag}", "{tag}:2").Result()
	check(err == nil && many[0] == "a" && many[1] == nil && many[2] == "b", "MGET of a tag", many, err)
	err = client.MGet(ctx, "key:1", "key:2").Err()
	check(err != nil && strings.Contains(err.Error(), "CROSSSLOT"), "MGET of two slots", err)
	script := redis.NewScript("return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}")
	for _, sum := range []int64{5, 10} {
		counts, err := script.Run(ctx, client, []string{"{s}:1", "{s}:2"}, 5).Int64Slice()
		check(err == nil && counts[0] == sum && counts[1] == sum/5, "a script", counts, err)
	}

	for index := range 6 {
		channel := "channel:" + strconv.Itoa(index)
		listener := client.SSubscribe(ctx, channel)
		_, err := listener.Receive(ctx)
		check(err == nil, "SSUBSCRIBE", err)
		check(client.SPublish(ctx, channel, "of "+channel).Val() == 1, "SPUBLISH")
		message, err := listener.ReceiveMessage(ctx)
		check(err == nil && message.Channel == channel && message.Payload == "of "+channel, "a message", message, err)
		listener.Close()
	}

	until("replicas", func() bool {
		for at, port := range replicas {
			if all.do(port, "DBSIZE") != all.do(primaries[at], "DBSIZE") {
				return false
			}
		}
		return true
	})
	options.ReadOnly, options.RouteRandomly = true, true
	spread := redis.NewClusterClient(&options)
	before := all.reads(replicas)
	for index := range 300 {
		value(spread, "key:"+strconv.Itoa(index), "key:"+strconv.Itoa(index)+"+")
	}
	check(all.reads(replicas) > before+50, "reads of replicas")
	spread.Close()

	// A slot on its way, and gone: ASK, then MOVED; and back.
	source, target := primaries[0], primaries[1]
	tag, slot := "", int64(0)
	for number := 0; tag == "" || slot >= 5461; number++ {
		tag = "{" + strconv.Itoa(number) + "}"
		slot = client.ClusterKeySlot(ctx, tag).Val()
	}
	set(client, tag+":here", "1")
	set(client, tag+":gone", "2")
	all.open(slot, source, target)
	all.do(source, "MIGRATE", "127.0.0.1", target, tag+":gone", 0, 5000)
	set(client, tag+":new", "3")
	check(all.do(target, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64) == 2, "a key that was set by ASK")
	look := func() {
		for at, name := range []string{"here", "gone", "new"} {
			value(client, tag+":"+name, strconv.Itoa(at+1))
		}
	}
	look()
	all.close(slot, source, target)
	look()
	all.open(slot, target, source)
	look()
	all.close(slot, target, source)
	look()

	slots, err := client.ClusterSlots(ctx).Result()
	check(err == nil && len(slots) == 3 && len(slots[0].Nodes) == 2, "CLUSTER SLOTS", slots, err)
	shards, err := client.ClusterShards(ctx).Result()
	check(err == nil && len(shards) == 3, "CLUSTER SHARDS", shards, err)
	sum := int64(0)
	for _, shard := range shards {
		check(len(shard.Nodes) == 2 && shard.Nodes[0].Health == "online", "a shard", shard)
		for _, ends := range shard.Slots {
			sum += ends.End - ends.Start + 1
		}
	}
	check(sum == 16384, "slots of CLUSTER SHARDS", sum)
	links, err := client.ClusterLinks(ctx).Result()
	check(err == nil && len(links) == 10, "CLUSTER LINKS", len(links), err)
}

var moved = regexp.MustCompile(`errorstat_MOVED:count=(\d+)`)

// redirects is how many MOVED the nodes have answered.
func (all nodes) redirects() (sum int) {
	for port := range all {
		if found := moved.FindStringSubmatch(all.do(port, "INFO", "errorstats").(string)); found != nil {
			count, _ := strconv.Atoi(found[1])
			sum += count
		}
	}
	return sum
}

// hearsOfMoves has slots leave by MIGRATESLOTS: the node that they leave tells the client, which asks the next owner without a redirect.
func hearsOfMoves(ports []string) {
	all := nodes{}
	for _, port := range ports[:2] {
		all[port] = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		defer all[port].Close()
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + ports[0]}, Protocol: 3, PoolSize: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeEnabled},
	})
	defer client.Close()
	key := func(of string, than int64) (string, int64) {
		for number := 0; ; number++ {
			name := "{" + strconv.Itoa(number) + "}" + of
			if slot := client.ClusterKeySlot(ctx, name).Val(); slot/5462 == than {
				return name, slot
			}
		}
	}
	name, slot := key("moves", 0)
	set(client, name, "1")
	for at := range 2 {
		source, target := ports[at], ports[1-at]
		other, _ := key("stays", int64(at))
		set(client, other, "2")
		id := all.do(target, "CLUSTER", "MYID")
		all.do(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", id)
		until("the move", func() bool {
			return all.do(source, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64) == 0
		})
		// It reads the notification ahead of its next answer, and asks for the map beside that.
		set(client, other, "3")
		time.Sleep(500 * time.Millisecond)
		before := all.redirects()
		value(client, name, "1")
		check(all.redirects() == before, "a redirect", source)
	}
}

func main() {
	for _, protocol := range []int{2, 3} {
		exercise(os.Args[1:], protocol)
	}
	hearsOfMoves(os.Args[1:])
	fmt.Printf("go-redis %s: a cluster by RESP2 and RESP3 works\n", redis.Version())
}

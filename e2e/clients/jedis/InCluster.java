// What a Java program does with a cluster through Jedis: java InCluster PORT..., those of three primaries and of their replicas
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.CommandObjects;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.MigrateParams;
import redis.clients.jedis.resps.ClusterShardInfo;

public class InCluster {
    static final List<Jedis> nodes = new ArrayList<>();
    static final List<Integer> ports = new ArrayList<>();

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        for (long end = System.nanoTime() + 20_000_000_000L; !holds.getAsBoolean(); Thread.sleep(5)) {
            check(System.nanoTime() < end, what);
        }
    }

    // GETs that the replicas have served.
    static int reads() {
        int sum = 0;
        for (int at = 3; at < 6; at++) {
            Matcher found = Pattern.compile("cmdstat_get:calls=(\\d+)").matcher(nodes.get(at).info("commandstats"));
            sum += found.find() ? Integer.parseInt(found.group(1)) : 0;
        }
        return sum;
    }

    static void open(int slot, int source, int target) {
        nodes.get(target).clusterSetSlotImporting(slot, nodes.get(source).clusterMyId());
        nodes.get(source).clusterSetSlotMigrating(slot, nodes.get(target).clusterMyId());
    }

    static void close(int slot, int source, int target) {
        migrate(source, target, nodes.get(source).clusterGetKeysInSlot(slot, 100).toArray(new String[0]));
        String id = nodes.get(target).clusterMyId();
        nodes.get(target).clusterSetSlotNode(slot, id);
        nodes.get(source).clusterSetSlotNode(slot, id);
    }

    static void migrate(int source, int target, String... keys) {
        nodes.get(source).migrate("127.0.0.1", ports.get(target), 5000, new MigrateParams(), keys);
    }

    static void messages(RedisClusterClient client) throws InterruptedException {
        LinkedBlockingQueue<String> got = new LinkedBlockingQueue<>();
        for (int index = 0; index < 6; index++) {
            String channel = "channel:" + index;
            JedisShardedPubSub listener = new JedisShardedPubSub() {
                @Override
                public void onSMessage(String from, String message) {
                    got.add(from + " " + message);
                }
            };
            Thread thread = new Thread(() -> client.ssubscribe(listener, channel));
            thread.start();
            until("a subscriber", () -> client.spublish(channel, "text") == 1);
            check((channel + " text").equals(got.poll(20, TimeUnit.SECONDS)), "a message of " + channel);
            listener.sunsubscribe();
            thread.join();
        }
    }

    // A slot on its way, and gone: ASK, then MOVED; and back.
    static void moveSlot(RedisClusterClient client) {
        String tag = "";
        int slot = 16384;
        for (int number = 0; slot > 5460; number++) {
            tag = "{" + number + "}";
            slot = (int) nodes.get(0).clusterKeySlot(tag);
        }
        client.set(tag + ":here", "1");
        client.set(tag + ":gone", "2");
        open(slot, 0, 1);
        migrate(0, 1, tag + ":gone");
        client.set(tag + ":new", "3");
        check(nodes.get(1).clusterCountKeysInSlot(slot) == 2, "a key that was set by ASK");
        look(client, tag);
        close(slot, 0, 1);
        look(client, tag);
        open(slot, 1, 0);
        look(client, tag);
        close(slot, 1, 0);
        look(client, tag);
    }

    static void look(RedisClusterClient client, String tag) {
        int value = 1;
        for (String name : List.of("here", "gone", "new")) {
            check(String.valueOf(value++).equals(client.get(tag + ":" + name)), name);
        }
    }

    static void exercise(RedisProtocol protocol) throws InterruptedException {
        for (Jedis primary : nodes.subList(0, 3)) {
            primary.flushAll();
        }
        DefaultJedisClientConfig config =
            DefaultJedisClientConfig.builder().protocol(protocol).readOnlyForRedisClusterReplicas().build();
        Set<HostAndPort> seed = Set.of(new HostAndPort("127.0.0.1", ports.get(0)));
        try (RedisClusterClient client = RedisClusterClient.builder().nodes(seed).clientConfig(config).build()) {
            check(client.getClusterNodes().size() == 6, client.getClusterNodes());
            Map<String, Response<String>> replies = new HashMap<>();
            try (ClusterPipeline pipeline = client.pipelined()) {
                for (int index = 0; index < 300; index++) {
                    String name = "key:" + index;
                    client.set(name, name);
                    check(name.equals(client.get(name)), name);
                    pipeline.append(name, "+");
                    replies.put(name, pipeline.get(name));
                }
                pipeline.sync();
            }
            replies.forEach((name, reply) -> check((name + "+").equals(reply.get()), "a pipeline over all slots"));
            for (Jedis primary : nodes.subList(0, 3)) {
                check(primary.dbSize() > 50, "keys on every node");
            }
            client.mset("{tag}:1", "a", "{tag}:2", "b");
            List<String> many = client.mget("{tag}:1", "missing{tag}", "{tag}:2");
            check("a".equals(many.get(0)) && many.get(1) == null && "b".equals(many.get(2)), many);
            String script = "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}";
            check(List.of(5L, 1L).equals(client.eval(script, List.of("{s}:1", "{s}:2"), List.of("5"))), "EVAL");
            try {
                client.eval(script, List.of("{s}:1", "{other}:2"), List.of("5"));
                check(false, "a script of two slots passed");
            } catch (JedisException expected) {
                // Jedis refuses it, or the server.
            }
            messages(client);
            until("replicas", () -> {
                for (int at = 0; at < 3; at++) {
                    if (nodes.get(at).dbSize() != nodes.get(at + 3).dbSize()) {
                        return false;
                    }
                }
                return true;
            });
            int before = reads();
            CommandObjects commands = new CommandObjects(protocol);
            for (String name : replies.keySet()) {
                check((name + "+").equals(client.executeCommandToReplica(commands.get(name))), "a read of a replica");
            }
            check(reads() >= before + 300, "reads of replicas");
            moveSlot(client);
        }
        List<ClusterShardInfo> shards = nodes.get(3).clusterShards();
        check(shards.size() == 3 && shards.get(0).getNodes().size() == 2, shards);
        check(nodes.get(3).clusterLinks().size() == 10, nodes.get(3).clusterLinks());
    }

    public static void main(String[] arguments) throws InterruptedException {
        for (String port : arguments) {
            ports.add(Integer.parseInt(port));
            nodes.add(new Jedis("127.0.0.1", Integer.parseInt(port)));
        }
        exercise(RedisProtocol.RESP2);
        exercise(RedisProtocol.RESP3);
        System.out.println("jedis: a cluster by RESP2 and RESP3 works");
    }
}
